from collections.abc import Callable
from functools import partial

import pytest

from tests.lab import parts
from tests.lab.left_out import left_out

Run = Callable[..., pytest.RunResult]

TESTS = """
    import pytest
    from tests.lab.parts import require

    @pytest.fixture(scope="session")
    def engine():
        require("imaginary")

    @pytest.mark.lab
    def test_one(engine): ...

    @pytest.mark.lab
    def test_two(engine): ...

    def test_three(): ...
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A project of its own with two tests on a part that does not exist."""
    part = parts.Part("imaginary", {"no-such-program": "no-such-package"})
    monkeypatch.setitem(parts.PARTS, "imaginary", part)
    monkeypatch.delenv("CI", raising=False)
    # Plugins take longer to load than the tests run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\nmarkers = lab: runs on real parts")
    pytester.makepyfile(TESTS)
    return partial(pytester.runpytest_inprocess, "-p", "tests.lab.left_out")


REASON = "imaginary: needs no-such-program (Debian: apt-get install no-such-package) (2 tests)"


def test_the_run_ends_with_what_was_left_out_and_why(run: Run) -> None:
    result = run()
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(["*left out*", REASON])
    assert result.ret == pytest.ExitCode.OK


def test_in_ci_a_skipped_test_is_a_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = run()
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines([REASON, "CI=true: no test may be left out*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_deselected_lab_tests_are_listed_but_are_no_failure(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    result = run("-m", "not lab")
    result.assert_outcomes(passed=1, deselected=2)
    result.stdout.fnmatch_lines(["deselected: the lab (2 tests)"])
    assert result.ret == pytest.ExitCode.OK


def test_complete_run_lists_nothing_left_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parts.PARTS, "imaginary", parts.Part("imaginary", {"sh": "dash"}))
    monkeypatch.setenv("CI", "true")
    result = run()
    result.assert_outcomes(passed=3)
    result.stdout.no_fnmatch_line("*left out*")
    assert result.ret == pytest.ExitCode.OK


def test_each_reason_is_one_line_with_its_count() -> None:
    reasons = ["swarm: needs root", "docker: needs root", "swarm: needs root"]
    assert left_out(reasons, lab_tests_deselected=1) == [
        "docker: needs root (1 test)",
        "swarm: needs root (2 tests)",
        "deselected: the lab (1 test)",
    ]
