"""Round-trip times that agents measured, from a Prometheus-compatible store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from collector.features.network.mesh.delays import Delays
from collector.features.network.mesh.mesh import Mesh
from collector.features.network.pull import LOST_RATIO, ROUND_TRIP, pull
from collector.features.network.settings import MeshConfig
from collector.history.promql import Client
from collector.history.sqlite.history import open_sqlite
from collector.observe.registry import Registry
from collector.runtime.parts import Core
from tests.collector.builders import START, Clock, report, settings
from tests.collector.features.prometheus.tiny import TinyStore

NODES = ("alpha", "beta")


@asynccontextmanager
async def collector(*, enabled: bool) -> AsyncIterator[Core]:
    config = settings().with_section(MeshConfig(enabled=enabled))
    async with open_sqlite(config.history) as history:
        core = Core(config, Registry(config), history, Clock())
        for node in NODES:
            core.registry.apply(report(node), START)
        yield core


async def test_round_trip_times_of_scraped_nodes_are_read() -> None:
    store = TinyStore()
    for node, peer, seconds in (("alpha", "beta", 0.02), ("beta", "alpha", 0.03), ("alpha", "evil", 1e9)):
        series = {"instance": node, "peer": peer}
        store.put(START, seconds, __name__=ROUND_TRIP, quantile="0.5", **series)
        store.put(START, 2 * seconds, __name__=ROUND_TRIP, quantile="0.95", **series)
        store.put(START, 0.25, __name__=LOST_RATIO, **series)
    async with collector(enabled=True) as core:
        await pull(core, cast("Client", store), NODES, START)
        mesh = core.registry.part(Mesh)
        await mesh.update(START)
        assert mesh.plan.medians == {NODES: 0.03}
        assert {(each.p95_seconds, each.lost_ratio) for each in mesh.probes(*NODES)} == {
            (0.04, 0.25),
            (0.06, 0.25),
        }
        delays = core.registry.tables.snapshot(START).part(Delays)
        assert delays is not None
        assert delays.from_node(0).tolist() == [0.0, 0.03]


async def test_without_a_mesh_no_round_trip_times_are_read() -> None:
    store = TinyStore()
    store.put(START, 0.1, __name__=ROUND_TRIP, quantile="0.5", instance="alpha", peer="beta")
    async with collector(enabled=False) as core:
        await pull(core, cast("Client", store), NODES, START)
        assert core.registry.tables.snapshot(START).part(Delays) is None
