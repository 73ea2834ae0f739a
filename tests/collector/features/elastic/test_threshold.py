"""The rule of the Horizontal Pod Autoscaler, by the examples of its documentation."""

import msgspec
import pytest

from collector.features.elastic.scaling import threshold
from collector.features.elastic.scaling.interface import Observation, Target

_TARGET = Target(metric_max=0.1, replicas_max=20, utilization_target=0.5, cool_down_seconds=0)
_SEEN = Observation(at_seconds=0.0, replicas=4, cpu_limit_cores=0.5, cpu_used_cores=1.0, metric=None)


def _seen(at_seconds: float, replicas: int, used_ratio: float) -> Observation:
    return msgspec.structs.replace(
        _SEEN, at_seconds=at_seconds, replicas=replicas, cpu_used_cores=used_ratio * replicas * 0.5
    )


@pytest.mark.parametrize(
    ("used_ratio", "wanted"),
    [
        (1.0, 8),  # twice the target: twice as many
        (0.6, 5),  # rounded up
        (0.55, 4),  # within the tolerance of a tenth
        (0.45, 4),
    ],
)
def test_replicas_bring_utilization_to_the_target(used_ratio: float, wanted: int) -> None:
    decision = threshold.decide(_TARGET, _seen(0, 4, used_ratio), b"")
    assert decision.replicas == wanted
    assert decision.cpu_limit_cores == 0.5


def test_at_most_twice_as_many_or_four_more_at_once() -> None:
    target = msgspec.structs.replace(_TARGET, utilization_target=0.05)
    assert threshold.decide(target, _seen(0, 2, 1.0), b"").replicas == 6
    assert threshold.decide(target, _seen(0, 8, 1.0), b"").replicas == 16


def test_a_reduction_waits_for_five_minutes() -> None:
    learned, found = b"", []
    for at in range(0, 421, 60):
        decision = threshold.decide(_TARGET, _seen(at, 4, 0.25 if at else 0.5), learned)
        learned = decision.learned
        found.append(decision.replicas)
    assert found == [4, 4, 4, 4, 4, 2, 2, 2]
    assert (
        "recommended within the last 300 s" in threshold.decide(_TARGET, _seen(60, 4, 0.25), b"").reasons[-1]
    )


def test_a_service_without_limit_counts_against_the_highest() -> None:
    seen = msgspec.structs.replace(_seen(0, 4, 0.5), cpu_limit_cores=None, cpu_used_cores=3.0)
    decision = threshold.decide(_TARGET, seen, b"")
    assert (decision.replicas, decision.cpu_limit_cores) == (6, None)
