import asyncio
from pathlib import Path

import msgspec

from collector.common.orchestrator import NodeView
from collector.history.sqlite.history import open_sqlite
from collector.observe.registry import Registry
from collector.observe.updates import Allocation
from collector.runtime.parts import Core
from collector.runtime.traits import (
    NODE_TRAITS,
    SERVICE_TRAITS,
    StoredNodeTraits,
    StoredServiceTraits,
    storing_traits,
)
from tests.collector.builders import START, Clock, container, report, settings


async def test_traits_from_settings_and_orchestrator_are_stored(tmp_path: Path) -> None:
    rules = {"alpha": {"zone": "north", "wattpack.generation": "old"}}
    config = msgspec.structs.replace(settings(tmp_path / "history.db"), nodes=rules)
    async with open_sqlite(config.history) as history:
        core = Core(config, Registry(config), history, Clock())
        core.registry.apply(report("alpha", containers=[container("web", service="shop")]), START)
        core.registry.tables.put_status(NodeView(name="alpha", labels={"wattpack.power": "never"}))
        promise = Allocation(
            node="alpha",
            container="id-of-web",
            requested=(1.0,) * 4,
            allocated=(1.0,) * 4,
            stays=True,
            labels={"wattpack.class": "3"},
        )
        core.registry.tables.put_allocations([promise])
        async with storing_traits(core):
            async with asyncio.timeout(10):
                while not (stored := await history.get_values(SERVICE_TRAITS)):  # noqa: ASYNC110 - there is no event
                    await asyncio.sleep(0.01)
        [service] = stored.values()
        assert msgspec.json.decode(service, type=StoredServiceTraits) == StoredServiceTraits(
            task_class=3, kind="service", movable=False
        )
        [node] = (await history.get_values(NODE_TRAITS)).values()
        assert msgspec.json.decode(node, type=StoredNodeTraits) == StoredNodeTraits(
            "old",
            "north",
            labels={"wattpack.power": "never", "zone": "north", "wattpack.generation": "old"},
        )
