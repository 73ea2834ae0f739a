"""A pytest plugin that ends every run with what was left out and why; with CI=true that is a failure.

What a person asked to leave out (`-m "not lab"`) is listed as well, but is never a failure.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

_asked_for = pytest.StashKey[int]()


def left_out(reasons: Iterable[str], lab_tests_deselected: int = 0) -> list[str]:
    """Give a line for each reason, with how many tests it kept from running."""
    lines = [f"{reason} ({_tests(count)})" for reason, count in sorted(Counter(reasons).items())]
    if lab_tests_deselected:
        lines.append(f"as asked: the lab ({_tests(lab_tests_deselected)})")
    return lines


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Give the bare reason of a skipped test."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the lab tests that a person chose not to run."""
    for item in items:
        if item.get_closest_marker("lab") is not None:
            item.config.stash[_asked_for] = item.config.stash.get(_asked_for, 0) + 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the list."""
    lines = left_out(_skipped(terminalreporter), config.stash.get(_asked_for, 0))
    if lines:
        terminalreporter.section("left out")
        for line in lines:
            terminalreporter.write_line(line)
        if _fails(terminalreporter):
            terminalreporter.write_line("CI=true: nothing may be left out, so this run has failed", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run in CI when a test did not run for want of something."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and session.exitstatus == pytest.ExitCode.OK and _fails(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _fails(reporter: pytest.TerminalReporter) -> bool:
    return os.environ.get("CI") == "true" and bool(_skipped(reporter))


def _skipped(reporter: pytest.TerminalReporter) -> list[str]:
    return [reason_of(report) for report in reporter.stats.get("skipped", [])]
