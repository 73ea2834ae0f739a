from typing import Any

import pytest

from collector.act.drivers.engine.containers import ContainerStatus, DockerContainer
from collector.act.orchestrator_state import CompletedActions
from collector.act.records import Step, StepState
from collector.decide.policies.actions import Kill, Move
from collector.features.cleanup.rule import is_needless, stopped_by_us

ENDED = 1_704_164_645.0
ENDED_TEXT = "2024-01-02T03:04:05.123456789Z"
WHY = ("because",)


def container(
    status: str = "exited", ended: str = ENDED_TEXT, policy: str = "no", **labels: str
) -> DockerContainer:
    return DockerContainer(
        id="job",
        state=ContainerStatus(status=status, finished_at=ended),
        config={"Labels": {name.replace("_", "."): value for name, value in labels.items()}},
        host_config={"RestartPolicy": {"Name": policy}},
    )


def needless(each: DockerContainer, before: float = ENDED + 1, **changes: Any) -> bool:
    return is_needless(each, before, **{"ours": (), "opt_in": False, **changes})


@pytest.mark.parametrize("policy", ["no", "", "on-failure"])
def test_a_container_that_finished_long_ago_is_needless(policy: str) -> None:
    assert needless(container(policy=policy))
    assert not needless(container(policy=policy), before=ENDED), "it ended later"


@pytest.mark.parametrize(
    "kept",
    [
        container(status="running"),
        container(status="paused"),
        container(status="created", ended="0001-01-01T00:00:00Z"),
        container(ended="0001-01-01T00:00:00Z"),
        container(ended="yesterday"),
        container(policy="always"),
        container(policy="unless-stopped"),
        container(wattpack_act="never"),
        container(com_docker_swarm_service_id="abc"),
    ],
)
def test_what_did_not_finish_or_is_of_others_stays(kept: DockerContainer) -> None:
    assert not needless(kept)


def test_what_wattpack_stopped_stays() -> None:
    assert not needless(container(), ours={"job"})


def test_with_opt_in_only_containers_with_the_label_go() -> None:
    assert not needless(container(), opt_in=True)
    assert needless(container(wattpack_act="allowed"), opt_in=True)


def step(action: Kill | Move, state: StepState) -> Step:
    return Step(action=action, state=state, started_at=1.0, done_at=2.0)


def test_containers_that_wait_or_whose_action_is_uncertain_are_ours() -> None:
    def kill(task: str, *, sheds: bool = False) -> Kill:
        return Kill(task=task, node="a", target=None, sheds=sheds, reasons=WHY)

    moved = Move(task="half-moved", node="a", target="b", reasons=WHY)
    done = Move(task="moved", node="a", target="b", reasons=WHY)
    steps = [
        step(kill("waits"), StepState.VERIFIED),
        step(kill("optional", sheds=True), StepState.VERIFIED),
        step(kill("maybe"), StepState.FAILED),
        step(moved, StepState.UNCLEAR),
        step(done, StepState.VERIFIED),
    ]
    completed = CompletedActions.of(each for each in steps if each.state is StepState.VERIFIED)
    assert stopped_by_us(completed, steps) == {"waits", "optional", "maybe", "half-moved"}
