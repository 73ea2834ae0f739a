"""What a collector recorded can be replayed."""

from pathlib import Path

import msgspec
import pytest

from collector.config import History
from collector.history.sqlite import open_sqlite
from replay.readers.history import read_history
from tests.replay.setups import simulate
from tests.reports import container, report
from wire.complaint import Complaint
from wire.messages import Heartbeat, PowerCurve, PowerSource, Report

CURVE = PowerCurve(
    source=PowerSource.MODEL,
    error_ratio=0.1,
    idle_watts=50.0,
    cpu_ratios=(0.0, 0.5, 1.0),
    cpu_watts=(0.0, 30.0, 40.0),
    memory_watts=4.0,
)
HEARTBEAT = Heartbeat(agent_version="1", sample_seconds=3, beacon_seconds=30, power_curve=CURVE)
START = 1_700_000_040.0


def minutes(node: str, *cores: float, heartbeat: Heartbeat | None = HEARTBEAT) -> list[Report]:
    """A word a minute from a node with one container."""
    return [
        msgspec.structs.replace(
            report(container(f"web-{node}", cpu_cores=used), sequence=minute + 1, node=node),
            at=START + 60 * minute,
            heartbeat=heartbeat,
        )
        for minute, used in enumerate(cores)
    ]


async def recorded(path: Path, *reports: list[Report]) -> Path:
    async with open_sqlite(History(path=str(path))) as history:
        for each in reports:
            await history.add(each, START)
    return path


async def test_hosts_and_use_are_those_that_were_told(tmp_path: Path) -> None:
    path = await recorded(
        tmp_path / "history.db", minutes("one", 0.5, 0.7, 0.9), minutes("two", 0.2, 0.2, 0.2)
    )
    scenario, workload = read_history(path)
    assert [(host.name, host.cpu_cores, host.memory_mb) for host in scenario.hosts] == [
        ("one", 4.0, 8192),
        ("two", 4.0, 8192),
    ]
    assert scenario.hosts[0].watts[0] == 50.0
    assert scenario.hosts[0].watts[len(scenario.hosts[0].watts) // 2] == pytest.approx(80.0)
    assert workload.services == ("shop", "shop")
    assert workload.requested[0, :2].tolist() == [1.0, 1 << 30]
    result = simulate("first-fit", scenario.hosts, workload).account
    assert result.counts["placed"] == 2
    assert result.total.joules > 2 * 50 * 180


async def test_node_without_a_power_curve_is_named(tmp_path: Path) -> None:
    plain = msgspec.structs.replace(HEARTBEAT, power_curve=None)
    path = await recorded(tmp_path / "history.db", minutes("dim", 0.5, heartbeat=plain))
    with pytest.raises(Complaint, match="dim told no power curve"):
        read_history(path)


def test_what_is_no_history_is_complained_of(tmp_path: Path) -> None:
    with pytest.raises(Complaint, match="no history at"):
        read_history(tmp_path / "absent")
    other = tmp_path / "other"
    other.write_text("not a database, and longer than a header of one would have to be" * 20)
    with pytest.raises(Complaint, match="cannot be read as"):
        read_history(other)
