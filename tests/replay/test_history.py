"""What a collector recorded can be replayed."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from collector.config import HistoryConfig
from collector.history.sqlite.history import open_sqlite
from collector.runtime.traits import NODE_TRAITS, SERVICE_TRAITS, StoredNodeTraits, StoredServiceTraits
from collector.snapshot.tables import TaskKind
from replay.readers.history import read_history
from tests.replay.setups import simulate
from tests.reports import container, report
from wire.errors import UserError
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
    async with open_sqlite(HistoryConfig(path=str(path))) as history:
        for each in reports:
            await history.add(each, START)
    return path


async def test_hosts_and_usage_are_those_of_the_reports(tmp_path: Path) -> None:
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


async def test_a_replay_follows_the_same_rules_as_the_cluster(tmp_path: Path) -> None:
    lone = msgspec.structs.replace(
        container("lone", cpu_cores=0.1), service=None, labels={"wattpack.class": "3", "tier": "x"}
    )
    reports = [
        msgspec.structs.replace(
            report(container("web", cpu_cores=0.5), lone, sequence=minute + 1, node="one"),
            at=START + 60 * minute,
            heartbeat=HEARTBEAT,
        )
        for minute in range(5)
    ]
    path = await recorded(tmp_path / "history.db", reports, minutes("two", 0.2, 0.2, 0.2))
    async with open_sqlite(HistoryConfig(path=str(path))) as history:
        young = StoredNodeTraits("young", "rack1", {"wattpack.power": "never"})
        await history.put_values(NODE_TRAITS, {"one": msgspec.json.encode(young)})
        shop = StoredServiceTraits(task_class=4, kind="daemon", movable=False)
        await history.put_values(SERVICE_TRAITS, {"shop": msgspec.json.encode(shop)})
    scenario, workload = read_history(path)
    one, two = scenario.hosts
    assert (one.generation, one.domain, one.labels) == ("young", "rack1", {"wattpack.power": "never"})
    assert (two.generation, two.domain) == ("any", None)
    used = reports[0].state
    assert used is not None
    assert one.system_cores == pytest.approx((used.used.cpu_cores or 0.0) - 0.6)
    ids = dict(zip(workload.ids, range(workload.size), strict=True))
    web, lonely = ids[f"one/{reports[0].containers[0].id}"], ids[f"one/{lone.id}"]
    assert (workload.task_class[web], workload.kind[web]) == (4, TaskKind.DAEMON)
    assert workload.labels[web]["wattpack.move"] == "never"
    assert [(each.label, each.value) for each in workload.constraints[web]] == [("node", "one")]
    assert (workload.task_class[lonely], workload.kind[lonely]) == (3, TaskKind.SERVICE)
    assert workload.labels[lonely]["tier"] == "x"
    assert simulate("genpack", scenario.hosts, workload).account.counts["placed"] == 3


async def condensed(path: Path, hours: int, settings: HistoryConfig) -> Path:
    """Every minute of some hours a node says that its container uses 0.5 cores, in the last hour 0.9."""
    path.parent.mkdir(exist_ok=True)
    cores = [0.5] * 60 * (hours - 1) + [0.9] * 61
    async with open_sqlite(msgspec.structs.replace(settings, path=str(path))) as history:
        for each in minutes("one", *cores):
            await history.add([each], each.at)
        await history.apply_retention(START + 3600 * hours)
    return path


@pytest.mark.slow
async def test_time_before_the_samples_is_read_from_sums_of_five_minutes(tmp_path: Path) -> None:
    path = await condensed(tmp_path / "history.db", 4, HistoryConfig(retention_hours=1.0))
    _, in_full = read_history(path)
    assert in_full.step_seconds == 60.0
    assert in_full.duration_seconds <= 3600 + 60
    scenario, older = read_history(path, days=1)
    assert older.step_seconds == 300.0
    assert older.duration_seconds == pytest.approx(4 * 3600, abs=600)
    used = older.use.at(3600.0, np.array([0]), np.zeros(1))[0]
    assert used[:2].tolist() == pytest.approx([0.5, in_full.use.at(0.0, np.array([0]), np.zeros(1))[0, 1]])
    assert older.use.at(3.5 * 3600, np.array([0]), np.zeros(1))[0, 0] == pytest.approx(0.9)
    assert (older.services, older.requested[0, 0]) == (("shop",), 1.0)
    assert simulate("first-fit", scenario.hosts, older).account.counts["placed"] == 1


@pytest.mark.slow
async def test_days_that_samples_cover_are_read_in_full_and_cut_to_length(tmp_path: Path) -> None:
    path = await condensed(tmp_path / "history.db", 4, HistoryConfig(retention_hours=24.0))
    _, half_an_hour = read_history(path, days=0.5 / 24)
    assert half_an_hour.step_seconds == 60.0
    assert half_an_hour.duration_seconds == pytest.approx(1800, abs=120)


@pytest.mark.slow
async def test_sums_of_an_hour_are_read_where_finer_ones_are_deleted(tmp_path: Path) -> None:
    settings = HistoryConfig(retention_hours=0.5, detail_days=1.5 / 24)
    path = await condensed(tmp_path / "history.db", 6, settings)
    _, hourly = read_history(path, days=7)
    assert hourly.step_seconds == 3600.0
    assert hourly.duration_seconds >= 5 * 3600
    _, fine = read_history(path, days=1 / 24)
    assert fine.step_seconds == 300.0


@pytest.mark.slow
async def test_a_container_that_ran_for_a_part_of_a_step_has_the_same_cpu_time(tmp_path: Path) -> None:
    path = await condensed(tmp_path / "history.db", 4, HistoryConfig(retention_hours=1.0))
    _, older = read_history(path, days=1)
    steps = np.arange(0.0, older.duration_seconds, older.step_seconds)
    core_seconds = sum(older.use.at(each, np.array([0]), np.zeros(1))[0, 0] for each in steps) * 300.0
    assert core_seconds == pytest.approx(3 * 3600 * 0.5 + 3600 * 0.9, rel=0.01)


async def test_node_without_a_power_curve_is_named(tmp_path: Path) -> None:
    plain = msgspec.structs.replace(HEARTBEAT, power_curve=None)
    path = await recorded(tmp_path / "history.db", minutes("dim", 0.5, heartbeat=plain))
    with pytest.raises(UserError, match="dim reported no power curve"):
        read_history(path)


def test_a_file_without_history_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no history at"):
        read_history(tmp_path / "absent")
    other = tmp_path / "other"
    other.write_text("not a database, and longer than a header of one would have to be" * 20)
    with pytest.raises(UserError, match="cannot be read as"):
        read_history(other)
