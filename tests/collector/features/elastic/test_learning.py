"""ge-kube's learning policy, on a service that can be computed by hand."""

import pytest

from collector.features.elastic.scaling import model_based
from collector.features.elastic.scaling.interface import ElasticDecision, ElasticPolicy, Observation, Target

TARGET = Target(metric_max=0.1, replicas_max=4, cpu_step_cores=0.0, cool_down_seconds=0.0)


def run(
    policy: ElasticPolicy, count: int, target: Target = TARGET
) -> list[tuple[Observation, ElasticDecision]]:
    """A service that needs three replicas: with fewer it breaks its target."""
    replicas, learned, found = 1, b"", []
    for place in range(count):
        seen = Observation(
            at_seconds=1e9 + 180.0 * place,
            replicas=replicas,
            cpu_limit_cores=1.0,
            cpu_used_cores=min(1.8, replicas),
            metric=0.02 if replicas >= 3 else 0.5,
        )
        decision = policy(target, seen, learned)
        found.append((seen, decision))
        replicas, learned = decision.replicas, decision.learned
    return found


@pytest.mark.slow
def test_the_model_learns_where_the_target_is_broken() -> None:
    found = run(model_based.decide, 40)
    assert {seen.replicas for seen, _ in found[-10:]} <= {2, 3}
    assert not any(decision.explored for _, decision in found)
    assert all(decision.replicas == 3 for seen, decision in found[-10:] if seen.replicas == 2)


@pytest.mark.slow
def test_nothing_unknown_is_tried_on_a_service_that_breaks_its_target() -> None:
    """A reduction to where the service has not been is only tried while the target is met."""
    target = Target(metric_max=0.001, replicas_max=4, cpu_step_cores=0.1, cool_down_seconds=0.0)
    tried = set()
    for seen, decision in run(model_based.decide, 20, target):
        tried.add(seen.replicas)
        assert decision.replicas >= seen.replicas or decision.replicas in tried
        assert decision.cpu_limit_cores == 1.0
