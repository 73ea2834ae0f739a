"""Keeps the efficiency of nodes in the history."""

import logging
from contextlib import AbstractAsyncContextManager

import msgspec

from collector.common.periodic import in_background, repeat
from collector.features.genpack.live import NodeEfficiency
from collector.runtime.parts import Core

log = logging.getLogger(__name__)

_KIND, _KEY = "genpack", "watts-per-core"
_STORE_SECONDS = 60.0


async def restore(core: Core) -> None:
    """Restore the efficiency of existing nodes from before a restart."""
    for stored in (await core.history.get_values(_KIND)).values():
        try:
            watts = msgspec.json.decode(stored, type=dict[str, float])
        except msgspec.DecodeError as error:
            log.warning("the stored efficiency of nodes is invalid, and is ignored: %s", error)
            continue
        names = core.registry.names()
        core.registry.part(NodeEfficiency).watts = {each: watts[each] for each in names if each in watts}


def running(core: Core) -> AbstractAsyncContextManager[None]:
    """Store the efficiency when it has changed, while the block runs."""
    part = core.registry.part(NodeEfficiency)
    stored: dict[str, float] = {}

    async def store() -> None:
        nonlocal stored
        if (watts := part.watts) != stored:
            await core.history.put_values(_KIND, {_KEY: msgspec.json.encode(watts)})
            stored = watts

    return in_background(repeat(store, _STORE_SECONDS, "storing the efficiency of nodes"))
