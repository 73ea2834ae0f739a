"""Round-trip times between nodes, from the series of their agents in a store."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from collector.features.network.mesh.mesh import Mesh
from collector.history.promql import Client, Instant, selector
from collector.runtime.parts import Core
from wire.mesh import PeerResult

ROUND_TRIP: Final = "wattpack_peer_round_trip_seconds"
LOST_RATIO: Final = "wattpack_peer_lost_ratio"
_PROBES = 100
"""The store has the share of lost probes only: it counts as that of a hundred."""


async def pull(core: Core, source: Client, nodes: Sequence[str], at: float) -> None:
    """Read the round-trip times that some nodes measured; those that send them themselves are left out."""
    mesh, label = core.registry.part(Mesh), core.config.pull.node_label
    if mesh.is_enabled:
        found = await source.query(selector((ROUND_TRIP, LOST_RATIO), label, nodes), at)
        for node, results in parse_round_trips(found, label).items():
            mesh.put_read_results(node, results, core.clock())


def parse_round_trips(found: Iterable[Instant], node_label: str) -> dict[str, list[PeerResult]]:
    """The results of each node in the answer of a store; invalid ones are left out."""
    values: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for each in found:
        node, peer, value = each.metric.get(node_label), each.metric.get("peer"), float(each.value[1])
        if node and peer and math.isfinite(value):
            is_time = each.metric.get("__name__") == ROUND_TRIP
            values[node, peer][each.metric.get("quantile", "") if is_time else LOST_RATIO] = value
    results: defaultdict[str, list[PeerResult]] = defaultdict(list)
    for (node, peer), of_pair in values.items():
        lost = round(_PROBES * min(max(0.0, of_pair.get(LOST_RATIO, 0.0)), 1.0))
        fields = (peer, of_pair.get("0.5"), of_pair.get("0.95"), _PROBES - lost, lost)
        try:
            results[node].append(msgspec.convert(fields, PeerResult))
        except msgspec.ValidationError:
            continue
    return dict(results)
