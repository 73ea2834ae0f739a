import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from agent.config import AgentConfig, DockerConfig, HostConfig
from agent.main import sample_once
from tests.lab.engines.docker import Engine, EngineError, docker_engine
from tests.lab.engines.image import BURN
from tests.lab.traces import traces
from tests.lab.waiting import eventually

pytestmark = pytest.mark.lab

PATIENCE_SECONDS = 60.0


def test_a_container_is_bounded_labelled_and_found_in_the_control_groups(engine: Engine) -> None:
    container = engine.run("bounded", "sleep", "1000", memory="64m", labels={"tier": "web"})
    try:
        group = engine.cgroup(container, "memory")
        pid = engine.inspect("bounded")["State"]["Pid"]
        assert str(pid) in (group / "cgroup.procs").read_text(encoding="ascii").split()
        limits = [group / "memory.limit_in_bytes", group / "memory.max"]
        assert [int(path.read_text(encoding="ascii")) for path in limits if path.exists()] == [64 << 20]
        assert engine.inspect(container)["Config"]["Labels"] == {"tier": "web"}
    finally:
        engine.remove("bounded")
    assert not group.exists()


def test_a_burner_burns_what_its_quota_leaves_it_by_the_engine_s_own_count(engine: Engine) -> None:
    container = engine.run("burner", *BURN, cpus=0.3)
    try:
        start, begun = engine.cpu_seconds(container), time.monotonic()
        # It has no end; how soon it has burnt a second depends on how busy the machine is elsewhere.
        eventually(lambda: engine.cpu_seconds(container) - start >= 1.0, PATIENCE_SECONDS)
        used, elapsed_seconds = engine.cpu_seconds(container) - start, time.monotonic() - begun
        assert used / elapsed_seconds < 0.35
    finally:
        engine.remove("burner")


def test_an_agent_that_starts_later_reports_when_a_container_started(engine: Engine) -> None:
    container = engine.run("older", "sleep", "1000")
    config = AgentConfig(
        host=HostConfig(cgroup=f"/{engine.cgroup_parent}"), docker=DockerConfig(socket=str(engine.socket))
    )

    def reported() -> float | None:
        [state] = [each for each in asyncio.run(sample_once(config)).containers if each.id == container]
        return state.started_at

    def started() -> float:
        return datetime.fromisoformat(
            engine.inspect("older")["State"]["StartedAt"][:26] + "+00:00"
        ).timestamp()

    try:
        # On a busy machine, the engine notes the start a second after the process.
        assert reported() == pytest.approx(started(), abs=2)
        first = started()
        engine.docker("restart", "--time=0", "older")
        assert started() > first
        assert first < (reported() or 0) < started() + 0.5
    finally:
        engine.remove("older")


def test_refusal_has_the_message_of_the_engine(engine: Engine) -> None:
    with pytest.raises(EngineError, match="No such container"):
        engine.stop("nobody")


def test_containers_outlive_a_restart_of_the_daemon() -> None:
    with docker_engine() as engine:
        engine.run("survivor", "sleep", "1000")
        before = engine.inspect("survivor")["State"]["Pid"]
        engine.restart()
        assert engine.inspect("survivor")["State"] == {
            **engine.inspect("survivor")["State"],
            "Pid": before,
            "Status": "running",
        }


def test_engines_run_side_by_side_and_know_only_their_own_containers() -> None:
    with docker_engine() as one, docker_engine() as other:
        with ThreadPoolExecutor() as pool:
            mine, theirs = pool.map(lambda engine: engine.run("same", "sleep", "1000"), (one, other))
        assert [entry["Id"] for entry in one.get("/containers/json")] == [mine]
        assert [entry["Id"] for entry in other.get("/containers/json")] == [theirs]
        assert one.get("/info")["ID"] != other.get("/info")["ID"]


def test_nothing_is_left_of_an_engine_even_when_the_block_fails() -> None:
    def fail() -> None:
        with docker_engine() as engine:
            engine.run("busy", *BURN, cpus=0.1)
            # A throttled process may take longer to freeze than the runtime waits, so an idle one is paused.
            engine.run("paused", "sleep", "1000")
            engine.docker("pause", "paused")
            raise RuntimeError(engine.root.name)

    with pytest.raises(RuntimeError) as caught:
        fail()
    assert traces(str(caught.value)) == []
