"""Plans the mesh while the collector runs, and keeps the images of nodes in the history."""

from contextlib import AbstractAsyncContextManager

import msgspec

from collector.common.errors import HistoryUnavailable
from collector.common.periodic import in_background, repeat
from collector.features.network.live import NodeImages
from collector.features.network.mesh.mesh import Mesh
from collector.runtime.parts import Core

NODE_IMAGES = "node-images"
"""The kind of stored values, by name of the node."""
_PLAN_SECONDS = 1.0
"""Members and results that arrive together are planned together."""
_STORE_SECONDS = 60.0


async def restore(core: Core) -> None:
    """Restore the images of nodes: agents report them again only when they change, or after an hour."""
    images, known = core.registry.part(NodeImages), set(core.registry.names())
    stored = await core.history.get_values(NODE_IMAGES)
    for node in known & stored.keys():
        images.put(node, frozenset(msgspec.json.decode(stored[node], type=list[str])))
    images.unsaved = set(stored) - known


def running(core: Core) -> AbstractAsyncContextManager[None]:
    """Plan which pairs of nodes measure each other, and store images, while the block runs."""
    mesh, images = core.registry.part(Mesh), core.registry.part(NodeImages)

    async def plan() -> None:
        await mesh.update(core.clock())

    async def store() -> None:
        changed, images.unsaved = images.unsaved, set()
        found = {node: images.references.get(node) for node in changed}
        encoded = {node: msgspec.json.encode(sorted(each)) if each else None for node, each in found.items()}
        try:
            await core.history.put_values(NODE_IMAGES, encoded)
        except HistoryUnavailable:
            images.unsaved |= changed
            raise

    work = [repeat(store, _STORE_SECONDS, "storing the images of nodes")]
    if mesh.is_enabled:
        work.append(repeat(plan, _PLAN_SECONDS, "planning the mesh"))
    return in_background(*work)
