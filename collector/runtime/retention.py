"""Bounds memory and disk: drops nodes that are gone and old samples, and compacts usage."""

import logging
from contextlib import AbstractAsyncContextManager
from functools import partial

from collector.common.errors import HistoryUnavailable
from collector.common.outages import Dependency
from collector.common.periodic import in_background, repeat
from collector.observe.limits.node_account import Limit
from collector.runtime.parts import Core

log = logging.getLogger(__name__)

_COMPACTION_SECONDS = 0.25
_CHECK_SECONDS = 5.0
_COMPACT_AT_ONCE = 8
"""Number of nodes whose usage is compacted in one commit: few, so that reports hardly wait for it."""


def retention(core: Core) -> AbstractAsyncContextManager[None]:
    """Apply retention and compact usage while the block runs."""

    async def drop_old() -> None:
        now = core.clock()
        for old, new in core.registry.drop_old(now).items():
            log.info("node %s was renamed to %s: it runs the same containers", old, new)
        bounded = await core.history.apply_retention(now, core.config.limits)
        for node, buckets in bounded.items():
            core.registry.limits.refuse(node, Limit.ENERGY, now, buckets)

    async def compact_usage() -> None:
        """Replace the usage of many reports in the history with its sum."""
        keys, totals = core.registry.usage.compact(_COMPACT_AT_ONCE)
        if keys:
            try:
                await core.history.store_usage(keys, totals)
            except HistoryUnavailable:
                core.registry.usage.requeue(keys)
                raise

    core.outages.watch(Dependency.HISTORY)
    return in_background(
        repeat(partial(check_history, core), _CHECK_SECONDS, "checking the history"),
        repeat(drop_old, core.config.history.rollup_seconds, "dropping old samples"),
        repeat(compact_usage, _COMPACTION_SECONDS, "compacting usage"),
    )


async def check_history(core: Core) -> None:
    """Report whether reports can be stored, and whether the file is intact."""
    try:
        await core.history.check()
    except HistoryUnavailable as error:
        core.outages.begin(Dependency.HISTORY, f"the history is unavailable: {error}")
        return
    core.outages.end(Dependency.HISTORY, "the history is available again")
