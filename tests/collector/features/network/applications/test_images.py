"""The images of nodes: the newest list counts, and it survives a restart of the collector."""

import asyncio
from pathlib import Path

import msgspec

from collector.config import PlacementConfig
from collector.features.network.applications.images import ImageTable
from collector.features.network.jobs import NODE_IMAGES, restore, running
from collector.history.sqlite.history import open_sqlite
from collector.observe.registry import Registry
from collector.runtime.parts import Core
from tests.collector.builders import START, Clock, partial_report, report, settings

EAGER = msgspec.structs.replace(settings(), placement=PlacementConfig(snapshot_seconds=0.0))


def where(registry: Registry, image: str) -> list[str]:
    snapshot = registry.tables.snapshot(START)
    images = snapshot.part(ImageTable)
    assert images is not None
    return [name for name, has in zip(snapshot.nodes.names, images.on_nodes(image), strict=True) if has]


def test_nothing_is_known_until_a_node_reports_images() -> None:
    registry = Registry(EAGER)
    registry.apply(report(), START)
    assert registry.tables.snapshot(START).part(ImageTable) is None


def test_the_newest_list_of_each_node_counts() -> None:
    registry = Registry(EAGER)
    registry.apply(report("alpha"), START)
    registry.apply(report("beta"), START)
    registry.apply(partial_report("alpha", sequence=3, images=("redis:7", "web:1")), START)
    registry.apply(partial_report("alpha", sequence=2, images=("old:1",)), START)
    registry.apply(partial_report("beta", sequence=2, images=("web:1",)), START)
    assert where(registry, "web:1") == ["alpha", "beta"]
    assert (where(registry, "redis:7"), where(registry, "old:1")) == (["alpha"], [])
    registry.apply(partial_report("alpha", sequence=4), START)
    assert where(registry, "redis:7") == ["alpha"], "a report without images changes nothing"
    registry.apply(partial_report("alpha", sequence=5, images=()), START)
    assert where(registry, "web:1") == ["beta"]
    registry.apply(report("beta", boot="second", at=START + 1), START + 1)
    assert where(registry, "web:1") == ["beta"], "an agent that restarts lists them a moment later"


def test_snapshots_share_the_table_until_images_change() -> None:
    registry = Registry(EAGER)
    registry.apply(report("alpha"), START)
    registry.apply(partial_report("alpha", sequence=2, images=("web:1",)), START)
    first, second = (registry.tables.snapshot(START + each).part(ImageTable) for each in range(2))
    assert first is second
    registry.apply(partial_report("alpha", sequence=3, images=("web:2",)), START)
    third = registry.tables.snapshot(START + 2).part(ImageTable)
    assert third is not first
    assert third is not None
    assert third.on_nodes("web:2").all()


async def test_images_survive_a_restart_of_the_collector_and_those_of_removed_nodes_do_not(
    tmp_path: Path,
) -> None:
    async with open_sqlite(settings(tmp_path / "history.db").history) as history:
        core = Core(EAGER, Registry(EAGER), history, Clock())
        await history.put_values(NODE_IMAGES, {"gone": b"[]"})
        await restore(core)
        core.registry.apply(report("alpha"), START)
        core.registry.apply(partial_report("alpha", sequence=2, images=("web:1",)), START)
        async with running(core), asyncio.timeout(10):
            while (await history.get_values(NODE_IMAGES)).keys() != {"alpha"}:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.01)
        later = Core(EAGER, Registry(EAGER), history, Clock())
        later.registry.apply(report("alpha"), START)
        await restore(later)
        assert where(later.registry, "web:1") == ["alpha"]
