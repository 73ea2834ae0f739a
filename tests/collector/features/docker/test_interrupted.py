"""A collector dies at every point of every action on plain hosts: nothing doubled, lost or left behind."""

from pathlib import Path

import pytest

from collector.act.records import StepState
from collector.decide.policies.actions import Action, Cut, Kill, Move, Resize, Start
from tests.collector.act.drivers.interrupted import Fuse, interrupted
from tests.collector.features.docker.dockerd import Hosts
from wire.resources import Quantities

WHY = ("because",)
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


def build(name: str) -> tuple[Hosts, str, Action]:
    """Return hosts with one container, its id, and the action on it."""
    hosts, kind = Hosts(), name.split("-", maxsplit=1)[0]
    status = "exited" if kind == "start" else "running"
    web = hosts.engines["alpha"].run("web", status=status)
    for engine in hosts.engines.values() if name.endswith("sick") else ():
        engine.sick.add("web")
    actions: dict[str, Action] = {
        "move": Move(task=web, name="web", node="alpha", target="beta", reasons=WHY),
        "stop": Kill(task=web, name="web", node="alpha", target=None, reasons=WHY),
        "start": Start(
            task=web, name="web", target="beta" if name == "start-elsewhere" else "alpha", reasons=WHY
        ),
        "cut": Cut(task=web, name="web", node="alpha", allocated=HALF, reasons=WHY),
        "resize": Resize(service="web", cpu_limit_cores=0.5, cpu_limit_cores_before=1.0, reasons=WHY),
    }
    return hosts, web, actions[kind]


@pytest.fixture(autouse=True)
def polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.act.drivers.interface._POLL_SECONDS", 0.005)


@pytest.mark.parametrize("name", POINTS)
async def test_the_points_are_all_changes_of_an_action(name: str, tmp_path: Path) -> None:
    hosts, _, action = build(name)
    fuse = Fuse()
    step = await interrupted(tmp_path, hosts, action, fuse, reports=not name.endswith("unseen"))
    assert fuse.changes == POINTS[name]
    expected = {"unseen": StepState.UNDONE, "sick": StepState.FAILED}
    assert step.state is expected.get(name.rsplit("-", 1)[-1], StepState.VERIFIED)


@pytest.mark.parametrize(("name", "at"), CASES)
async def test_nothing_is_doubled_lost_or_left_behind(name: str, at: int, tmp_path: Path) -> None:
    hosts, web, action = build(name)
    fuse = Fuse(at)
    step = await interrupted(tmp_path, hosts, action, fuse, reports=not name.endswith("unseen"))
    assert fuse.is_dead
    [(node, found)] = [(node, each) for node in hosts.nodes for each in hosts.containers(node)]
    is_done = step.state is StepState.VERIFIED
    assert is_done or step.state in {
        StepState.PLANNED, StepState.DROPPED, StepState.FAILED, StepState.UNDONE
    }  # fmt: skip
    runs, cores = found.state.status == "running", 1.0
    match action:
        case Move() | Start(target="beta"):
            assert node == ("beta" if is_done else "alpha")
            assert runs is (is_done or isinstance(action, Move))
            assert (found.id == web) is (node == "alpha" and step.state is not StepState.UNDONE) or (
                step.state is StepState.UNDONE
            )
            assert step.containers == ((found.id,) if is_done else step.containers)
        case Kill():
            assert runs is not is_done
        case Start():
            assert runs is is_done
        case Cut() | Resize():
            assert runs
            cores = 0.5 if is_done else 1.0
    nano, quota = found.host_config["NanoCpus"], found.host_config.get("CpuQuota", 0)
    assert (nano / 1e9, quota) == (cores, 0)
