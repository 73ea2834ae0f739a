"""A collector dies at every point of every action on a Swarm: nothing doubled, lost or left behind."""

import copy
from pathlib import Path

import pytest

from collector.act.records import StepState
from collector.common.labels import BEFORE_LABEL, DRAINED_LABEL, OFF_LABEL
from collector.decide.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Resize, Scale
from collector.features.swarm.specs import cpu_limit_of, parked_tasks, replicas_of, user_spec
from tests.collector.act.drivers.interrupted import Fuse, interrupted
from tests.collector.features.swarm.swarmd import Swarmd
from wire.resources import Quantities

WHY = ("because",)
BEGIN, END = ["journal", "journal"], ["journal", "journal", "journal"]
UNDO = ["journal", "journal"]
POINTS = {
    "move": [*BEGIN, "update", "update", *END],
    "move-unseen": [*BEGIN, "update", "update", *UNDO, "update", "update", "journal", "journal"],
    "move-sick": [*BEGIN, "update", "update", "update", "journal", "journal"],
    "park": [*BEGIN, "update", *END],
    "park-one-of-three": [*BEGIN, "update", "update", *END],
    "scale": [*BEGIN, "update", "update", *END],
    "scale-unseen": [*BEGIN, "update", "update", *UNDO, "update", "journal", "journal"],
    "shed": [*BEGIN, "update", *END],
    "resize": [*BEGIN, "update", "update", *END],
    "cut": [*BEGIN, "update", *END],
    "off": [*BEGIN, "update", "update", *END],
    "on": [*BEGIN, "update", *END],
}
CASES = [(name, at) for name, changes in POINTS.items() for at in range(len(changes))]
"""In memory, right after a change is right before the next one; the lab kills at both."""


def build(name: str, folder: Path) -> tuple[Swarmd, Action]:
    kind = name.split("-", maxsplit=1)[0]
    swarm = Swarmd(folder, replicas=3 if name == "park-one-of-three" else 1)
    web = swarm.runs()["alpha"][0]
    swarm.keeps_promises = kind == "park"
    if name == "move-sick":
        swarm.sick.add("beta")
    if kind == "on":
        Path(folder, "gamma").touch()
        swarm.node_specs["gamma"] = {
            "Availability": "drain",
            "Labels": {DRAINED_LABEL: "active", OFF_LABEL: "true"},
        }
    actions: dict[str, Action] = {
        "move": Move(task=web, name="web", node="alpha", target="beta", reasons=WHY),
        "park": Kill(task=web, name="web", node="alpha", target=None, reasons=WHY),
        "scale": Scale(service="web", replicas=2, replicas_before=1, nodes=("gamma",), reasons=WHY),
        "shed": Scale(service="web", replicas=0, replicas_before=1, sheds=True, reasons=WHY),
        "resize": Resize(service="web", cpu_limit_cores=0.5, cpu_limit_cores_before=1.0, reasons=WHY),
        "cut": Cut(task=web, name="web", node="alpha", allocated=Quantities(0.5), reasons=WHY),
        "off": PowerOff(node="gamma", reasons=WHY),
        "on": PowerOn(node="gamma", reasons=WHY),
    }
    return swarm, actions[kind]


@pytest.fixture(autouse=True)
def polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.act.drivers.interface._POLL_SECONDS", 0.005)


@pytest.mark.parametrize("name", POINTS)
async def test_the_points_are_all_changes_of_an_action(name: str, tmp_path: Path) -> None:
    swarm, action = build(name, tmp_path)
    fuse = Fuse()
    step = await interrupted(tmp_path, swarm, action, fuse, reports=not name.endswith("unseen"))
    assert (step.why, fuse.changes) == (step.why, POINTS[name])
    expected = {"unseen": StepState.UNDONE, "sick": StepState.FAILED}
    assert step.state is expected.get(name.rsplit("-", 1)[-1], StepState.VERIFIED)


@pytest.mark.parametrize(("name", "at"), CASES)
async def test_nothing_is_doubled_lost_or_left_behind(name: str, at: int, tmp_path: Path) -> None:
    swarm, action = build(name, tmp_path)
    before, fuse = copy.deepcopy(swarm.spec), Fuse(at)
    step = await interrupted(tmp_path, swarm, action, fuse, reports=not name.endswith("unseen"))
    assert fuse.is_dead
    is_done = step.state is StepState.VERIFIED
    assert is_done or step.state in {
        StepState.PLANNED, StepState.DROPPED, StepState.FAILED, StepState.UNDONE
    }, step  # fmt: skip
    runs = swarm.runs()
    # Every container belongs to a task that runs.
    assert {each.id for node in swarm.nodes for each in swarm.containers(node)} == {
        each for there in runs.values() for each in there
    }
    parked = isinstance(action, Kill) and is_done
    assert bool(parked_tasks(swarm.spec)) is parked
    assert (BEFORE_LABEL in swarm.spec["Labels"]) is parked
    replicas = before["Mode"]["Replicated"]["Replicas"]
    if isinstance(action, Scale) and is_done:
        replicas = action.replicas
    assert replicas_of(user_spec(swarm.spec)) == replicas
    assert sum(map(len, runs.values())) == replicas - parked
    assert cpu_limit_of(swarm.spec) == (5 if isinstance(action, Resize) and is_done else 10) * 10**8
    if isinstance(action, Move):
        assert list(runs) == ["beta" if is_done else "alpha"]
        assert not is_done or step.containers == tuple(runs["beta"])
    if isinstance(action, Cut):
        [found] = swarm.containers("alpha")
        assert found.host_config["NanoCpus"] == (5 if is_done else 10) * 10**8
    is_off = (isinstance(action, PowerOff) and is_done) or (isinstance(action, PowerOn) and not is_done)
    assert swarm.is_off("gamma") is is_off
    assert (swarm.node_specs["gamma"]["Availability"] == "drain") is is_off
    assert (OFF_LABEL in (swarm.node_specs["gamma"].get("Labels") or {})) is is_off
