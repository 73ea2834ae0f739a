"""`priority`: the least important are stopped first, and never those that are as important."""

from dataclasses import replace

from collector.common.arrays import Floats
from collector.features.promises.qos.queue import Instances, Terms
from replay.contenders.priority import PRIORITY, priority_terms
from tests.collector.features.promises.qos.slots import Slots
from tests.collector.features.promises.qos.test_hold import (
    HOUR,
    ONE_CLASS,
    THREE_CLASSES,
    Mix,
    arrivals,
    by_promise,
)
from tests.collector.features.promises.qos.test_policy import BRONZE, GOLD, SILVER, brief, node, plan, task
from tests.collector.snapshot.builders import TaskFacts, assemble


def by_importance(instances: Instances, _seed: int) -> Terms:
    return priority_terms(instances)


def simulate(mix: Mix) -> tuple[dict[float, Floats], Slots]:
    slots = Slots(arrivals(mix, 1), by_importance, period_seconds=None, seed=1)
    return by_promise(slots, slots.run(HOUR)), slots


def test_by_priority_40_of_the_last_class_run_and_56_never_do() -> None:
    found, _ = simulate(THREE_CLASSES)
    assert (found[0.5] > 0.9).sum() == 40
    # Those that came first ran until all had come.
    assert (found[0.5] < 256 / HOUR).sum() == 56
    assert min(found[1.0].min(), found[0.9].min()) > 0.99


def test_by_priority_the_last_21_of_one_class_never_run() -> None:
    found, slots = simulate(ONE_CLASS)
    assert (found[0.9] > 0.99).sum() == 200
    assert (found[0.9][200:] == 0.0).all()
    assert slots.preemptions == 0


def test_priority_stops_the_least_important_and_of_those_the_newest() -> None:
    def admitted(each: TaskFacts, seconds: float) -> TaskFacts:
        assert each.slo is not None
        return replace(each, slo=replace(each.slo, admitted_seconds=seconds))

    tasks = [
        admitted(task("silver", "a", SILVER, 999.0, size=2), 5.0),
        admitted(task("old", "a", BRONZE, 999.0, size=1), 100.0),
        admitted(task("new", "a", BRONZE, -999.0, size=1), 10.0),
        admitted(task("first", None, SILVER, 500.0, size=1), 50.0),
        admitted(task("second", None, SILVER, -500.0, size=1), 40.0),
        admitted(task("third", None, SILVER, -600.0, size=1), 30.0),
    ]
    found = plan(PRIORITY, assemble([node("a")], tasks))
    assert brief(found) == ["kill new a", "kill old a", "start first a", "start second a"]
    assert found.actions[0].reasons == ("first has a more important promise: silver instead of bronze",)


def test_priority_prefers_the_host_that_loses_the_least_important() -> None:
    tasks = [task("a1", "a", SILVER), task("b1", "b", BRONZE), task("waits", None, GOLD)]
    assert brief(plan(PRIORITY, assemble([node("a"), node("b")], tasks))) == ["kill b1 b", "start waits b"]
