"""A pytest plugin that lists skipped tests and reasons after every run; with CI=true that is a failure.

Lab tests that are deselected (`-m "not lab"`) are listed too, but are never a failure.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

_deselected = pytest.StashKey[int]()


def left_out(reasons: Iterable[str], lab_tests_deselected: int = 0) -> list[str]:
    """Return a line for each reason, with the number of skipped tests."""
    lines = [f"{reason} ({_tests(count)})" for reason, count in sorted(Counter(reasons).items())]
    if lab_tests_deselected:
        lines.append(f"deselected: the lab ({_tests(lab_tests_deselected)})")
    return lines


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the bare reason of a skipped test."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the deselected lab tests."""
    for item in items:
        if item.get_closest_marker("lab") is not None:
            item.config.stash[_deselected] = item.config.stash.get(_deselected, 0) + 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the list."""
    lines = left_out(_skipped(terminalreporter), config.stash.get(_deselected, 0))
    if lines:
        terminalreporter.section("left out")
        for line in lines:
            terminalreporter.write_line(line)
        if _fails(terminalreporter):
            terminalreporter.write_line("CI=true: no test may be left out, so this run has failed", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run in CI if a test was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and session.exitstatus == pytest.ExitCode.OK and _fails(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _fails(reporter: pytest.TerminalReporter) -> bool:
    return os.environ.get("CI") == "true" and bool(_skipped(reporter))


def _skipped(reporter: pytest.TerminalReporter) -> list[str]:
    return [reason_of(report) for report in reporter.stats.get("skipped", [])]
