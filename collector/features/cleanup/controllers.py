"""Removes finished containers from Docker hosts, or shows which it would remove.

It runs beside the control loop, since no decision waits for it. An engine refuses to remove a container that
has started again.
"""

import asyncio
import logging
from contextlib import AsyncExitStack, suppress

from collector.act.drivers.engine.client import Engines, filtered, open_engines
from collector.act.drivers.engine.containers import DockerContainer, ListedContainer, find
from collector.act.drivers.interface import DriverError, RefusedError
from collector.act.guards import reason_not_to_act
from collector.act.loop import Actor, Controller
from collector.common.labels import ACT_LABEL, NEVER
from collector.common.periodic import in_background, repeat
from collector.decide.policies.resolve import PolicyChoice
from collector.features.cleanup.rule import is_needless, stopped_by_us
from collector.features.cleanup.settings import CleanupConfig
from collector.snapshot.tables import Snapshot

log = logging.getLogger(__name__)

_ROUND_SECONDS = 600.0
_MOST = 100
"""Containers of one host in a round: removing their files must not keep its disk from its work."""


class Cleanup(Controller):
    """Removes the containers that were created first, a bounded number in each round."""

    def __init__(self, actor: Actor) -> None:
        self._core, self._situation = actor.situation.core, actor.situation
        self._settings = self._core.config.section(CleanupConfig)
        self._is_dry = self._settings.finished != "remove"
        self._engines = Engines()
        self._shown: dict[str, dict[str, int]] = {}
        """The bytes of containers that were shown, by host."""

    async def start(self, stack: AsyncExitStack) -> None:
        if self._settings.finished == "keep":
            return
        self._engines = await stack.enter_async_context(open_engines(self._core.config.driver))
        work = repeat(self.run_round, _ROUND_SECONDS, "removing finished containers")
        await stack.enter_async_context(in_background(work))

    async def run(self, alert_policy: PolicyChoice | None) -> bool:  # noqa: ARG002 - for others
        return False

    async def run_round(self) -> None:
        """Remove or show what is due on every host."""
        snapshot = await self._situation.snapshot()
        rows, labels = snapshot.nodes.index, snapshot.nodes.labels
        # The labels of a node are unknown until its agent reports.
        hosts = [
            node for node in self._engines if node in rows and labels[rows[node]].get(ACT_LABEL) != NEVER
        ]
        await asyncio.gather(*(self._clean(each, snapshot) for each in hosts))

    async def _clean(self, node: str, snapshot: Snapshot) -> None:
        engine, left, filters = self._engines[node], _MOST, filtered(status="exited")
        ended_before = self._core.clock() - self._settings.after_hours * 3600
        try:
            listed = await engine.get("/containers/json", list[ListedContainer], all="true", filters=filters)
            there = {each.id for each in listed}
            shown = {each: size for each, size in self._shown.get(node, {}).items() if each in there}
            self._shown[node] = shown
            # None has ended before it was created.
            for each in sorted(listed, key=lambda each: each.created):
                if not left or each.created >= ended_before:
                    return
                if not self._is_dry and reason_not_to_act(self._situation.guard_context(snapshot)):
                    return
                container = None if each.id in shown else await find(engine, each.id)
                if container is not None and self._is_needless(container, ended_before):
                    left -= 1
                    await self._remove(node, container)
        except DriverError as error:
            log.warning("cannot clean up finished containers on %s: %s", node, error)

    def _is_needless(self, container: DockerContainer, ended_before: float) -> bool:
        situation = self._situation
        started = (step for _, step in situation.journal.started_steps(0.0))
        ours = stopped_by_us(situation.completed, started)
        return is_needless(container, ended_before, ours=ours, opt_in=situation.settings.opt_in)

    async def _remove(self, node: str, container: DockerContainer) -> None:
        """Remove a container, but not its volumes; in a dry run, only show it."""
        engine, path = self._engines[node], f"/containers/{container.id}"
        what = f"finished container {container.plain_name} on {node}"
        size = None
        with suppress(DriverError):  # counting may take too long
            size = (await engine.get(f"{path}/json", DockerContainer, size="true")).size_rw
        known = "an unknown number of bytes" if size is None else f"{size} bytes"
        if self._is_dry:
            shown = self._shown[node]
            shown[container.id] = size or 0
            log.info("would remove %s: frees %s, of %d bytes on this host", what, known, sum(shown.values()))
            return
        try:
            await engine.delete(path)
        except RefusedError as error:
            log.warning("cannot remove %s: %s", what, error)  # the next one may be removed
        else:
            log.info("removed %s, which ended at %s: freed %s", what, container.state.finished_at, known)


CONTROLLERS = (Cleanup,)
