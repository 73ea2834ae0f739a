"""A collector dies at every point of every action on a Swarm: nothing doubled, lost or left behind."""

import copy
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from collector.act.records import StepState
from collector.common.labels import BEFORE_LABEL, OFF_LABEL
from collector.decide.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Resize, Scale, Start
from collector.features.swarm.specs import constraints_of, cpu_limit_of, parked_tasks, replicas_of, user_spec
from tests.collector.act.drivers.interrupted import Fuse, KilledError, interrupted
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
    "start": [*BEGIN, "update", "update", *END],
    "start-one-of-three": [*BEGIN, "update", "update", *END],
    "start-sick": [*BEGIN, "update", "update", "journal", "journal"],
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


async def build(name: str, folder: Path) -> tuple[Swarmd, Action]:
    kind = name.split("-", maxsplit=1)[0]
    swarm = Swarmd(folder, replicas=3 if name.endswith("of-three") else 1)
    web = swarm.runs()["alpha"][0]
    park = Kill(task=web, name="web", node="alpha", target=None, reasons=WHY)
    waiting = ""
    if kind == "start":
        driver = swarm.driver(Fuse())
        await driver.carry_out(park)
        [waiting] = [each.id for each in (await driver.view()).pending]
    swarm.keeps_promises = kind in {"park", "start"}
    if name.endswith("sick"):
        swarm.sick.add("beta")
    if kind == "on":
        swarm.switch_off("gamma")
    actions: dict[str, Action] = {
        "move": Move(task=web, name="web", node="alpha", target="beta", reasons=WHY),
        "park": park,
        "start": Start(task=waiting, name="web", target="beta", reasons=WHY),
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
    swarm, action = await build(name, tmp_path)
    fuse = Fuse()
    step = await interrupted(tmp_path, swarm, action, fuse, reports=not name.endswith("unseen"))
    assert (step.why, fuse.changes) == (step.why, POINTS[name])
    expected = {"unseen": StepState.UNDONE, "sick": StepState.FAILED}
    assert step.state is expected.get(name.rsplit("-", 1)[-1], StepState.VERIFIED)


@pytest.mark.parametrize(("name", "at"), CASES)
async def test_nothing_is_doubled_lost_or_left_behind(name: str, at: int, tmp_path: Path) -> None:
    swarm, action = await build(name, tmp_path)
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
    parked = (isinstance(action, Kill) and is_done) or (isinstance(action, Start) and not is_done)
    assert bool(parked_tasks(swarm.spec)) is parked
    assert (BEFORE_LABEL in swarm.spec["Labels"]) is parked
    replicas = replicas_of(user_spec(before))
    assert replicas is not None
    if isinstance(action, Scale) and is_done:
        replicas = action.replicas
    assert replicas_of(user_spec(swarm.spec)) == replicas
    assert sum(map(len, runs.values())) == replicas - parked
    assert cpu_limit_of(swarm.spec) == (5 if isinstance(action, Resize) and is_done else 10) * 10**8
    if isinstance(action, Move):
        assert list(runs) == ["beta" if is_done else "alpha"]
        assert not is_done or step.containers == tuple(runs["beta"])
    if isinstance(action, Start) and is_done:
        assert "beta" in runs
    if isinstance(action, Cut):
        [found] = swarm.containers("alpha")
        assert found.host_config["NanoCpus"] == (5 if is_done else 10) * 10**8
    is_off = (isinstance(action, PowerOff) and is_done) or (isinstance(action, PowerOn) and not is_done)
    assert swarm.is_off("gamma") is is_off
    assert (swarm.node_specs["gamma"]["Availability"] == "drain") is is_off
    assert (OFF_LABEL in (swarm.node_specs["gamma"].get("Labels") or {})) is is_off


async def test_the_update_of_an_interrupted_undo_is_waited_for(tmp_path: Path) -> None:
    swarm, action = await build("move-unseen", tmp_path)
    before, fuse = copy.deepcopy(swarm.spec), Fuse(POINTS["move-unseen"].index("update", 4), sent=True)
    swarm.reads_per_update = 5
    step = await interrupted(tmp_path, swarm, action, fuse, reports=False)
    assert fuse.is_dead
    assert step.state is StepState.UNDONE, step.why
    assert list(swarm.runs()) == ["alpha"]
    assert swarm.spec == before


async def hold(swarm: Swarmd, replicas: dict[str, int]) -> dict[str, Any]:
    """Create the service anew, on chosen nodes; return the spec that its user wrote."""
    written = {**swarm.spec, "Labels": {}, "Mode": {"Replicated": {"Replicas": sum(replicas.values())}}}
    held = await swarm.driver(Fuse()).hold(replicas)
    template = {**written["TaskTemplate"], "Placement": {"Constraints": list(held.constraints)}}
    mode = {"Replicated": {"Replicas": held.replicas}}
    swarm.create({**written, "Labels": dict(held.labels), "Mode": mode, "TaskTemplate": template})
    return written


@pytest.mark.parametrize("at", range(3))
async def test_a_deployment_goes_on_after_the_collector_died(at: int, tmp_path: Path) -> None:
    swarm, fuse = Swarmd(tmp_path), Fuse(at)
    written = await hold(swarm, {"beta": 2, "gamma": 1})
    with suppress(KilledError):
        for _ in range(3):
            await swarm.driver(fuse).release()
    assert fuse.changes == ["update", "update"][: at + 1], "one for each group of nodes"
    for _ in range(3):
        await swarm.driver(Fuse()).release()
    assert {node: len(there) for node, there in swarm.runs().items()} == {"beta": 2, "gamma": 1}
    assert user_spec(swarm.spec)["Mode"] == written["Mode"]
    assert swarm.spec["Labels"] == {}
    assert not constraints_of(swarm.spec)
