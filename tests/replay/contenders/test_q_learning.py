"""Q-learning on the service of the tests of the other learning policy."""

from collector.features.elastic.scaling.interface import Target
from replay.contenders import q_learning
from tests.collector.features.elastic.test_learning import run


def test_q_learning_explores_only_while_the_target_is_met() -> None:
    found = run(q_learning.decide, 400)
    explored = [seen for seen, decision in found if decision.explored]
    assert explored
    assert all(seen.metric is not None and seen.metric <= 0.1 for seen in explored)


def test_never_explore_is_never() -> None:
    target = Target(
        metric_max=0.1,
        replicas_max=4,
        cpu_step_cores=0.0,
        cool_down_seconds=0.0,
        explore=False,
    )
    assert not any(decision.explored for _, decision in run(q_learning.decide, 200, target))
