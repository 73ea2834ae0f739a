"""Stores the traits of nodes and services in the history, so that a replay of it follows the same rules.

Labels, generations and domains come from the settings and from the orchestrator, and reports do not contain
them. Only changes are written.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import msgspec
import numpy as np

from collector.common.periodic import in_background, repeat
from collector.runtime.parts import Core
from collector.snapshot.tables import NOWHERE, Generation, Snapshot, TaskKind

NODE_TRAITS, SERVICE_TRAITS = "node-traits", "service-traits"
"""Kinds of stored values, by name of the node or service."""
_STORE_SECONDS = 60.0


class StoredNodeTraits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The traits of a node."""

    generation: str = Generation.ANY.name.lower()
    domain: str | None = None
    labels: dict[str, str] = {}


class StoredServiceTraits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The traits of the containers of a service."""

    task_class: int
    kind: str
    movable: bool = True


def storing_traits(core: Core) -> AbstractAsyncContextManager[None]:
    """Store traits that changed while the block runs."""
    stored: dict[str, dict[str, bytes]] = {NODE_TRAITS: {}, SERVICE_TRAITS: {}}

    async def store() -> None:
        snapshot = await core.snapshot()
        for kind, traits in (
            (NODE_TRAITS, node_traits(snapshot)),
            (SERVICE_TRAITS, service_traits(snapshot)),
        ):
            encoded = {name: msgspec.json.encode(each) for name, each in traits.items()}
            changed = {name: each for name, each in encoded.items() if stored[kind].get(name) != each}
            if changed:
                await core.history.put_values(kind, changed)
                stored[kind] = encoded

    return in_background(repeat(store, _STORE_SECONDS, "storing labels and generations"))


def node_traits(snapshot: Snapshot) -> Mapping[str, StoredNodeTraits]:
    """Return the traits of all nodes."""
    nodes = snapshot.nodes
    return {
        name: StoredNodeTraits(
            Generation(nodes.generation[row]).name.lower(),
            None if nodes.domain[row] == NOWHERE else snapshot.domain_names[nodes.domain[row]],
            dict(nodes.labels[row]),
        )
        for row, name in enumerate(nodes.names)
    }


def service_traits(snapshot: Snapshot) -> Mapping[str, StoredServiceTraits]:
    """Return the traits of all running services; of containers that differ, those of the first by id."""
    tasks = snapshot.tasks
    services, first = np.unique(tasks.service, return_index=True)
    return {
        snapshot.services.names[service]: StoredServiceTraits(
            int(tasks.task_class[task]), TaskKind(tasks.kind[task]).name.lower(), bool(tasks.movable[task])
        )
        for service, task in zip(services.tolist(), first.tolist(), strict=True)
        if service != NOWHERE
    }
