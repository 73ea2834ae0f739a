"""A collector dies at every point of every action on plain hosts: nothing doubled, lost or left behind."""

from pathlib import Path

import pytest

from collector.act.records import Step, StepState
from collector.decide.policies.actions import Action, Cut, Kill, Move, Resize, Start
from tests.collector.act.drivers.interrupted import Fuse, World, interrupted
from tests.collector.features.docker.dockerd import Hosts
from wire.resources import Quantities

WHY = ("because",)
_NOT_DONE = {StepState.PLANNED, StepState.DROPPED, StepState.FAILED, StepState.UNDONE}
HALF = Quantities(0.5)
BEGIN, END = ["journal", "journal"], ["journal", "journal", "journal"]
"""Records of a decision: planned, started; done, verified, ended."""
UNDO = ["journal", "journal"]
"""No agent reports it: done, undoing."""

POINTS = {
    "move": [*BEGIN, "create", "start", "stop", "delete", *END],
    "move-unseen": [
        *BEGIN, "create", "start", "stop", "delete", *UNDO, "create", "start", "stop", "delete", "journal",
        "journal",
    ],
    "move-sick": [*BEGIN, "create", "start", "delete", "journal", "journal"],
    "stop": [*BEGIN, "stop", *END],
    "stop-unseen": [*BEGIN, "stop", *UNDO, "start", "journal", "journal"],
    "start": [*BEGIN, "start", *END],
    "start-sick": [*BEGIN, "start", "stop", "journal", "journal"],
    "start-elsewhere": [*BEGIN, "start", "create", "start", "stop", "delete", *END],
    "cut": [*BEGIN, "update", *END],
    "cut-unseen": [*BEGIN, "update", *UNDO, "update", "journal", "journal"],
    "resize": [*BEGIN, "update", *END],
}  # fmt: skip
"""Every change of each action, in order. A new one needs a row here, and is tested."""

CASES = [(name, at) for name, changes in POINTS.items() for at in range(len(changes))]
"""In memory, right after a change is right before the next one; the lab kills at both."""


def start_state(name: str) -> str:
    return "exited" if name.startswith("start") else "running"


def action_on(name: str, web: str, source: str, target: str) -> Action:
    """Return the action of a case on a container that is on the source."""
    actions: dict[str, Action] = {
        "move": Move(task=web, name="web", node=source, target=target, reasons=WHY),
        "stop": Kill(task=web, name="web", node=source, target=None, reasons=WHY),
        "start": Start(
            task=web, name="web", target=target if name == "start-elsewhere" else source, reasons=WHY
        ),
        "cut": Cut(task=web, name="web", node=source, allocated=HALF, reasons=WHY),
        "resize": Resize(service="web", cpu_limit_cores=0.5, cpu_limit_cores_before=1.0, reasons=WHY),
    }
    return actions[name.split("-", maxsplit=1)[0]]


def check(world: World, source: str, action: Action, step: Step) -> None:
    """Check that one container is left, and is as the journal says: done, or as before."""
    [(node, found)] = [(node, each) for node in world.nodes for each in world.containers(node)]
    is_done = step.state is StepState.VERIFIED
    assert is_done or step.state in _NOT_DONE, step
    runs, cores = found.state.status == "running", 1.0
    match action:
        case Move(target=target) | Start(target=target) if target != source:
            assert node == (target if is_done else source)
            assert runs is (is_done or isinstance(action, Move))
            assert not is_done or step.containers == (found.id,)
        case Kill():
            assert runs is not is_done
        case Start():
            assert runs is is_done
        case Cut() | Resize():
            assert runs
            cores = 0.5 if is_done else 1.0
    assert (found.host_config["NanoCpus"] / 1e9, found.host_config.get("CpuQuota", 0)) == (cores, 0)


def build(name: str) -> tuple[Hosts, Action]:
    """Return hosts with one container, and the action on it."""
    hosts = Hosts()
    web = hosts.run("web", status=start_state(name))
    for engine in hosts.engines.values() if name.endswith("sick") else ():
        engine.sick.add("web")
    return hosts, action_on(name, web, "alpha", "beta")


@pytest.fixture(autouse=True)
def polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.act.drivers.interface._POLL_SECONDS", 0.005)


@pytest.mark.parametrize("name", POINTS)
async def test_the_points_are_all_changes_of_an_action(name: str, tmp_path: Path) -> None:
    hosts, action = build(name)
    fuse = Fuse()
    step = await interrupted(tmp_path, hosts, action, fuse, reports=not name.endswith("unseen"))
    assert fuse.changes == POINTS[name]
    expected = {"unseen": StepState.UNDONE, "sick": StepState.FAILED}
    assert step.state is expected.get(name.rsplit("-", 1)[-1], StepState.VERIFIED)


@pytest.mark.parametrize(("name", "at"), CASES)
async def test_nothing_is_doubled_lost_or_left_behind(name: str, at: int, tmp_path: Path) -> None:
    hosts, action = build(name)
    fuse = Fuse(at)
    step = await interrupted(tmp_path, hosts, action, fuse, reports=not name.endswith("unseen"))
    assert fuse.is_dead
    check(hosts, "alpha", action, step)
