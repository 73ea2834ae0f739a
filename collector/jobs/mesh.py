"""Updates the plan of the mesh while the collector runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from collector.common.periodic import in_background, repeat
from collector.core.parts import Core

_CHECK_SECONDS = 1.0
"""Members and results that arrive together are planned together."""


@asynccontextmanager
async def keeping_mesh(core: Core) -> AsyncIterator[None]:
    """Plan the pairs of nodes that measure each other while the block runs, if the mesh is enabled."""
    mesh = core.registry.mesh
    if not mesh.is_enabled:
        yield
        return

    async def update() -> None:
        await mesh.update(core.clock())

    async with in_background(repeat(update, _CHECK_SECONDS, "planning the mesh")):
        yield
