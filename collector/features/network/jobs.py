"""Plans the mesh while the collector runs, and keeps the images of nodes in the history."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from collector.common.periodic import in_background, repeat
from collector.core.parts import Core
from collector.features.network.applications.images import ImageTable
from collector.features.network.live import NodeImages
from collector.features.network.mesh.mesh import Mesh
from collector.history.interface import HistoryUnavailable

NODE_IMAGES = "node-images"
"""The kind of stored values, by name of the node."""
_PLAN_SECONDS = 1.0
"""Members and results that arrive together are planned together."""
_STORE_SECONDS = 60.0
_NO_IMAGES: frozenset[str] = frozenset()


async def restore(core: Core) -> None:
    """Restore the images of nodes: agents report them again only when they change, or after an hour."""
    stored = await core.history.get_values(NODE_IMAGES)
    known = set(core.registry.names())
    core.registry.part(NodeImages).restore(
        {
            node: frozenset(msgspec.json.decode(value, type=list[str]))
            for node, value in stored.items()
            if node in known
        }
    )


@asynccontextmanager
async def running(core: Core) -> AsyncIterator[None]:
    """Plan which pairs of nodes measure each other, and store images, while the block runs."""
    async with _planning(core), _storing_images(core):
        yield


@asynccontextmanager
async def _planning(core: Core) -> AsyncIterator[None]:
    mesh = core.registry.part(Mesh)
    if not mesh.is_enabled:
        yield
        return

    async def update() -> None:
        await mesh.update(core.clock())

    async with in_background(repeat(update, _PLAN_SECONDS, "planning the mesh")):
        yield


@asynccontextmanager
async def _storing_images(core: Core) -> AsyncIterator[None]:
    """Store changed images of nodes, and delete those of nodes that are gone."""
    stored = dict.fromkeys(await core.history.get_values(NODE_IMAGES), _NO_IMAGES)

    async def store() -> None:
        snapshot = await core.snapshot()
        images = snapshot.part(ImageTable)
        if images is None:
            return
        now = dict(zip(snapshot.nodes.names, images.references, strict=True))
        # A set that changed is another object.
        changed = {name: each for name, each in now.items() if stored.get(name, _NO_IMAGES) is not each}
        gone = stored.keys() - now.keys()
        if changed or gone:
            encoded = {name: msgspec.json.encode(sorted(each)) for name, each in changed.items()}
            await core.history.put_values(NODE_IMAGES, {**encoded, **dict.fromkeys(gone)})
            stored.update(changed)
            for name in gone:
                del stored[name]

    async with in_background(
        repeat(store, _STORE_SECONDS, "storing the images of nodes", expected=HistoryUnavailable)
    ):
        yield
