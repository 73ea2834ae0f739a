"""Takes out what nodes reported whose tokens were revoked: answers are as if they had never been there.

What they reported stays on disk, so that a node counts again as before when it gets a new token.
"""

import logging
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager

from collector.common.extensions import extensions
from collector.common.periodic import in_background, repeat
from collector.runtime.analysis import AnalysisJob
from collector.runtime.parts import Core

log = logging.getLogger(__name__)

_KIND = "revoked"
_CHECK_SECONDS = 1.0


class Revocations:
    """The nodes that do not count."""

    def __init__(self, core: Core, revoked: Callable[[], Collection[str]]) -> None:
        """`revoked` returns the nodes of which every token was revoked."""
        self._core, self._revoked = core, revoked
        self._excluded: set[str] = set()

    async def restore(self) -> None:
        """Exclude the nodes that were taken out before the start; the others are restored first."""
        stored = await self._core.history.get_values(_KIND)
        await self._exclude(stored.keys() & set(self._revoked()))
        await self._core.history.put_values(_KIND, dict.fromkeys(stored.keys() - self._excluded))

    async def run_once(self, analysis: AnalysisJob) -> bool:
        """Take out the nodes that were revoked since the last call; returns whether there were.

        Services follow from the other nodes with the next pass of the analysis.
        """
        core, revoked = self._core, set(self._revoked())
        # A report that was under way may have brought one back.
        for node in revoked & self._excluded & set(core.registry.names()):
            core.registry.remove(node)
        if revoked == self._excluded:
            return False
        # If one of these steps fails, all are taken again: only the last one completes them.
        new = revoked - self._excluded
        for node in new & set(core.registry.names()):
            core.registry.remove(node)
        for node in sorted(new):
            since, services = await core.history.contribution(node)
            for jobs in extensions("jobs"):
                if hasattr(jobs, "remove_node"):
                    await jobs.remove_node(core, node)
            await analysis.remove_node(node, since, services)
        await core.history.put_values(
            _KIND, dict.fromkeys(self._excluded - revoked) | dict.fromkeys(new, b"")
        )
        await self._exclude(revoked)
        for node in sorted(new):
            log.warning("the token of node %r was revoked: what it reported no longer counts", node)
        return bool(new)

    async def _exclude(self, nodes: Collection[str]) -> None:
        self._excluded = set(nodes)
        await self._core.history.exclude(nodes)

    def watching(self, analysis: AnalysisJob) -> AbstractAsyncContextManager[None]:
        """Follow the tokens while the block runs."""

        async def follow() -> None:
            # One pass, however many were revoked: it takes long in a large cluster.
            if await self.run_once(analysis):
                await analysis.analyse()

        return in_background(repeat(follow, _CHECK_SECONDS, "taking out revoked nodes"))
