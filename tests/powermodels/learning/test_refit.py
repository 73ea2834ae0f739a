import json
import sys
from math import sqrt
from pathlib import Path

import pytest

from powermodels.common.interface import Load
from powermodels.learning.refit import Refit, fit_and_wait
from powermodels.models.regression import CurveModel
from powermodels.models.samples import FitRequest, Sample
from wire.errors import UserError
from wire.messages import Gap

LIMITS = """
import json, os, resource, sys
print(json.dumps({
    "memory": resource.getrlimit(resource.RLIMIT_AS)[0],
    "cpu": resource.getrlimit(resource.RLIMIT_CPU)[0],
    "nice": os.nice(0),
    "oom": int(open("/proc/self/oom_score_adj").read()),
    "read": len(sys.stdin.read()),
}), file=sys.stderr)
sys.exit(1)
"""


def samples(count: int = 60) -> tuple[Sample, ...]:
    ratios = [index / (count - 1) for index in range(count)]
    return tuple(Sample(3.0 * i, 50 + 60 * u + 40 * sqrt(u), Load(u)) for i, u in enumerate(ratios))


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.slow
def test_a_fit_in_a_child_gives_a_model_and_is_never_waited_for() -> None:
    refit = Refit()
    assert refit.start(FitRequest(samples=samples(), host="here"), 0.0) is None
    assert refit.poll(0.1) is None
    refit.wait()
    fitted = refit.poll(1.0)
    assert isinstance(fitted, CurveModel)
    assert fitted.terms(Load(0.49)).watts == pytest.approx(50 + 60 * 0.49 + 40 * 0.7, rel=0.01)
    assert fitted.origin.host == "here"
    assert not refit.is_running
    assert refit.poll(2.0) is None


def test_the_child_is_limited_before_it_does_anything() -> None:
    code = f"import os, sys; sys.argv = ['refit']; os.execv = lambda *_: exec({LIMITS!r}, {{}})\n"
    refit = Refit(python(f"{code}from powermodels.learning.refit import main; main()"))
    refit.start(FitRequest(samples=samples(), host=""), 0.0)
    refit.wait()
    fitted = refit.poll(1.0)
    assert isinstance(fitted, Gap)
    limits = json.loads(fitted.why)
    assert limits["memory"] == 1 << 30
    assert limits["cpu"] == 60
    assert limits["nice"] == 19
    assert limits["oom"] == 1000
    assert limits["read"] > 1000


def test_a_child_that_takes_all_memory_fails_by_itself() -> None:
    hungry = (
        "import os; os.execv = lambda *_: bytearray(2 << 30)\n"
        "from powermodels.learning.refit import main; main()"
    )
    refit = Refit(python(hungry))
    refit.start(FitRequest(samples=samples(), host=""), 0.0)
    refit.wait()
    fitted = refit.poll(1.0)
    assert isinstance(fitted, Gap)
    assert "MemoryError" in fitted.why


def test_a_child_that_does_not_end_is_ended() -> None:
    refit = Refit(python("import time; time.sleep(600)"))
    refit.start(FitRequest(samples=samples(), host=""), 0.0)
    assert refit.poll(119.0) is None
    running = refit._running
    assert running is not None
    fitted = refit.poll(121.0)
    assert isinstance(fitted, Gap)
    assert "took more than 120 s" in fitted.why
    assert running.process.returncode == -9


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("print('{}')", "returned no model"),
        ("raise SystemExit(3)", "status 3"),
        ("import sys; sys.exit('too hot today')", "too hot today"),
    ],
)
def test_child_that_fails_reports_why(code: str, why: str) -> None:
    refit = Refit(python(code))
    refit.start(FitRequest(samples=samples(), host=""), 0.0)
    refit.wait()
    fitted = refit.poll(1.0)
    assert isinstance(fitted, Gap)
    assert why in fitted.why


def test_no_descriptor_and_no_child_is_left() -> None:
    before = descriptors()
    refit = Refit(python("import time; time.sleep(600)"))
    for _ in range(3):
        refit.start(FitRequest(samples=samples(), host=""), 0.0)
        running = refit._running
        assert running is not None
        refit.close()
        assert running.process.returncode == -9
    missing = Refit(("/no/such/program",))
    fitted = missing.start(FitRequest(samples=samples(), host=""), 0.0)
    assert isinstance(fitted, Gap)
    assert "cannot be started" in fitted.why
    assert descriptors() == before


@pytest.mark.slow
def test_too_few_samples_are_an_error() -> None:
    with pytest.raises(UserError, match="2 samples are too few"):
        fit_and_wait(FitRequest(samples=samples(2), host=""))


def test_a_request_that_cannot_be_written_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: str) -> int:
        raise OSError(24, "Too many open files")

    before = descriptors()
    monkeypatch.setattr("os.memfd_create", full)
    fitted = Refit(python("")).start(FitRequest(samples=samples(), host=""), 0.0)
    assert isinstance(fitted, Gap)
    assert "Too many open files" in fitted.why
    assert descriptors() == before
