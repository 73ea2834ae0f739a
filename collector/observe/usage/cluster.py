"""The usage of the containers of all nodes: from heartbeats, through moves, to the history and back.

A container that was moved has a new id on its new node. Its usage does not change by that, so it continues
the windows and the samples of its predecessor: see `ClusterUsage.add_successions`.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import nlargest
from itertools import groupby

import numpy as np

from collector.analysis.envelopes import Statistic
from collector.analysis.usage import ObservedContainer, UsageWeights, bucket_at, update_statistics
from collector.history.interface import StoredHistograms, UsageKey, UsageTotal
from collector.observe.entries import NO_USAGE, TrackedNode
from collector.observe.live_tables import LiveTables
from collector.observe.task_columns import KEPT_ENDED
from collector.observe.updates import Succession
from collector.observe.usage.tracker import Inheritance, UsageTracker, inherit, update
from wire.messages import ContainerUsage

log = logging.getLogger(__name__)


class Successions:
    """Which container replaced which in a move, as long as one of them is there. Not thread-safe."""

    def __init__(self) -> None:
        self._by_container: dict[str, Succession] = {}
        self._by_predecessor: dict[str, Succession] = {}
        self._continued: set[str] = set()

    def __iter__(self) -> Iterator[Succession]:
        """In the order in which they were added."""
        return iter(list(self._by_container.values()))

    def add(self, succession: Succession) -> bool:
        """Add a succession; returns whether it is new, and does not lead back to an earlier container."""
        if succession.container in self._by_container or succession.predecessor in self._by_predecessor:
            return False
        last: str | None = succession.container
        while last is not None:
            if last == succession.predecessor:
                return False
            after = self._by_predecessor.get(last)
            last = None if after is None else after.container
        self._by_container[succession.container] = succession
        self._by_predecessor[succession.predecessor] = succession
        return True

    def start(self, node: str, container: str) -> Succession | None:
        """The succession of a container that starts to run on a node, once."""
        found = self._by_container.get(container)
        if found is None or found.node != node or container in self._continued:
            return None
        self._continued.add(container)
        return found

    def replaced(self, containers: Iterable[str]) -> list[Succession]:
        """The successions of these containers, where they were replaced."""
        found = self._by_predecessor
        return [found[name] for name in containers if name in found] if found else []

    def drop(self, succession: Succession) -> None:
        del self._by_container[succession.container]
        del self._by_predecessor[succession.predecessor]
        self._continued.discard(succession.container)


class ClusterUsage:
    """The usage of the containers of these nodes. Every change of an envelope goes to the live tables."""

    def __init__(self, nodes: Mapping[str, TrackedNode], tables: LiveTables, weights: UsageWeights) -> None:
        self._nodes = nodes
        self._tables = tables
        self._weights = weights
        self._changed: set[str] = set()
        self._successions = Successions()

    # --- Heartbeats ---------------------------------------------------------------------------

    def new_tracker(self) -> UsageTracker:
        return UsageTracker(self._weights)

    def add(self, key: UsageKey, usage: Sequence[ContainerUsage]) -> Iterator[None]:
        """Add the usage of a heartbeat, and pause after every few containers.

        Envelopes change only where there is much new usage: see `tracker`.
        """
        for names in self._nodes[key.node].usage.add_heartbeat(key, usage):
            self._note_update(key.node, names)
            yield
        self._pass_on(usage)

    def add_all(self, heartbeats: Sequence[tuple[UsageKey, Sequence[ContainerUsage]]]) -> None:
        """Add the usage of the heartbeats of many nodes at once. They are not kept for the history."""
        due = []
        for key, usage in heartbeats:
            tracker = self._nodes[key.node].usage
            due.append((key.node, tracker, tracker.collect(key.bucket, usage)))
        update([(tracker, names) for _, tracker, names in due])
        for node, _, names in due:
            self._note_update(node, names)
        self._pass_on(each for _, usage in heartbeats for each in usage)

    def _note_update(self, node: str, containers: Sequence[str]) -> None:
        if containers:
            self._changed.add(node)
            self.put_envelopes(node, containers)

    def put_envelopes(self, node: str, containers: Sequence[str]) -> None:
        """Write the statistics of containers that have samples into the live tables."""
        if not containers:
            return
        entry = self._nodes[node]
        rings, sample_seconds = entry.usage.rings, entry.sample_seconds
        found = np.stack([rings[name].statistics for name in containers])
        variance = found[:, :, Statistic.VARIANCE]
        self._tables.put_envelopes(
            node,
            containers,
            envelope=found[:, :, Statistic.ENVELOPE],
            mean=found[:, :, Statistic.MEAN],
            variance=np.where(np.isnan(variance), 0.0, variance),
            observed_seconds=[rings[name].samples * sample_seconds for name in containers],
        )

    # --- Moves --------------------------------------------------------------------------------

    def add_successions(self, successions: Iterable[Succession]) -> None:
        """Let containers continue the usage of those that they replaced in moves, as soon as they run."""
        new = [each for each in successions if self._successions.add(each)]
        self._continue((each.node, each.container) for each in new if self._is_running(each))

    def note_started(self, node: str, containers: Sequence[str]) -> None:
        """Containers run: write what an earlier run reported, and what they continue."""
        entry = self._nodes[node]
        entry.usage.most_running = max(entry.usage.most_running, len(entry.run.containers))
        rings = entry.usage.rings
        self.put_envelopes(node, [name for name in containers if name in rings])
        self._continue((node, name) for name in containers)

    def successors(self) -> dict[str, str]:
        """The containers that replaced others in moves, by the ids of those."""
        return {each.predecessor: each.container for each in self._successions}

    def _is_running(self, succession: Succession) -> bool:
        entry = self._nodes.get(succession.node)
        return entry is not None and succession.container in entry.run.containers

    def _continue(self, running: Iterable[tuple[str, str]]) -> None:
        """Let containers, by node and id, continue the windows and samples of their predecessors."""
        started = [each for name in running if (each := self._successions.start(*name)) is not None]
        for each in started:
            self._tables.inherit_windows(each)
        self._inherit(started)

    def _inherit(self, successions: Sequence[Succession]) -> None:
        """Set what containers inherit, and those that replaced them in turn."""
        while successions:
            found = [(each, self._inheritance(each)) for each in successions]
            known = [(each, pair) for each, pair in found if pair is not None]
            changed = [known[place][0] for place in inherit([pair for _, pair in known])]
            for each in changed:
                self._note_update(each.node, [each.container])
            successions = self._successions.replaced(each.container for each in changed)

    def _inheritance(self, succession: Succession) -> Inheritance | None:
        before, after = self._nodes.get(succession.from_node), self._nodes.get(succession.node)
        if before is None or after is None:
            return None
        return Inheritance(before.usage, succession.predecessor, after.usage, succession.container)

    def _pass_on(self, usage: Iterable[ContainerUsage]) -> None:
        """Let the last samples of containers that were replaced count for their successors."""
        self._inherit(self._successions.replaced(each.id for each in usage))

    def take_over(self, node: str, old: str) -> None:
        """Let a renamed node continue the usage under its old name."""
        inherited = self._nodes[node].usage.inherit(self._nodes[old].usage)
        self._changed.add(node)
        self.put_envelopes(node, inherited)

    # --- Analysis -----------------------------------------------------------------------------

    def note_change(self, node: str) -> None:
        """Containers of a node started or ended, or the node was removed."""
        self._changed.add(node)

    def take_changed_nodes(self) -> set[str]:
        """The nodes for which `observed_containers` changed since the last call.

        Containers started or ended, or have new samples. A container that changes its service, which is rare,
        counts from its next samples on.
        """
        changed, self._changed = self._changed, set()
        return changed

    def observed_containers(self, node: str) -> list[ObservedContainer]:
        """The running containers of a node that belong to a service, with their usage.

        If an orchestrator runs the service, only the containers that it lists count.
        """
        entry = self._nodes.get(node)
        if entry is None:
            return []
        sample_seconds, unconfirmed = entry.sample_seconds, self._tables.unconfirmed(node)
        observed = []
        for name, reported in entry.run.containers.items():
            state, ring = reported.value, entry.usage.rings.get(name, NO_USAGE)
            if state.service and name not in unconfirmed:
                observed.append(
                    ObservedContainer(
                        node,
                        state.service,
                        state.image or "",
                        sample_seconds,
                        ring.parts,
                        ring.statistics,
                        ring.samples,
                        name,
                        len(ring.inherited),
                        state.limit,
                    )
                )
        return observed

    # --- Memory and history -------------------------------------------------------------------

    def drop_old(self, now: float) -> None:
        """Drop the usage of containers long gone, and the successions whose containers are both gone."""
        replaced = self.successors().keys()
        for entry in self._nodes.values():
            self._drop_ended(entry, now, replaced)
        for each in self._successions:
            before = self._nodes.get(each.from_node)
            if not self._is_running(each) and (before is None or not before.usage.has(each.predecessor)):
                self._successions.drop(each)

    def note_ended(self, node: str, containers: Sequence[str]) -> None:
        """Containers of a node ended: where many do, the first are dropped at once."""
        entry = self._nodes[node]
        self._changed.add(node)
        if entry.usage.note_ended(containers) > 2 * max(self._kept_ended, entry.usage.most_running):
            self._drop_ended(entry, entry.last_report_at, self.successors().keys())

    @property
    def _kept_ended(self) -> int:
        """Containers of each node that ended and whose usage is kept."""
        return KEPT_ENDED // max(1, len(self._nodes))

    def _drop_ended(self, entry: TrackedNode, now: float, replaced: AbstractSet[str]) -> None:
        entry.usage.drop_ended(entry.run.containers.keys(), bucket_at(now), replaced, self._kept_ended)

    def shrink(self, node: str, max_bytes: int) -> int:
        """Drop usage of ended containers until a node is within a size; returns its size after that."""
        entry = self._nodes.get(node)
        return 0 if entry is None else entry.usage.shrink(entry.run.containers.keys(), max_bytes)

    def compact(self, most_nodes: int) -> tuple[list[UsageKey], list[UsageTotal]]:
        """The heartbeats of some nodes whose usage the history can replace by totals, and these totals.

        Those of the nodes with the most: where reports come faster than this is called, no node is left out.
        """
        keys: list[UsageKey] = []
        totals: list[UsageTotal] = []
        waiting = [(name, entry.usage) for name, entry in self._nodes.items() if entry.usage.can_compact]
        for name, usage in nlargest(most_nodes, waiting, key=lambda each: each[1].uncompacted):
            of_node, total = usage.compact(name)
            keys += of_node
            totals += total
        return keys, totals

    def requeue(self, keys: Iterable[UsageKey]) -> None:
        """The history could not replace these heartbeats: `compact` returns them again."""
        for key in keys:
            if entry := self._nodes.get(key.node):
                entry.usage.requeue(key)

    def restore(self, nodes: Iterable[str], stored: StoredHistograms) -> None:
        """Restore the usage of some existing nodes from the history. `restore_successions` must follow."""
        entries = {name: self._nodes[name] for name in nodes}
        for total in stored.totals:
            entries[total.node].usage.restore_total(total)
        for (node, bucket), group in groupby(stored.pending, lambda each: (each[0].node, each[0].bucket)):
            some = list(group)
            usages = [each for _, usage in some for each in usage]
            entries[node].usage.restore_heartbeats(bucket, [key for key, _ in some], usages)
        self._update_statistics(entries)
        for node, entry in entries.items():
            self.put_envelopes(node, list(entry.usage.rings))

    def restore_successions(self) -> None:
        """Let containers inherit the restored usage of those that they replaced."""
        for succession in self._successions:
            self._inherit([succession])

    def _update_statistics(self, entries: Mapping[str, TrackedNode]) -> None:
        """Compute the statistics of all containers: at once, unless the usage of a node is not valid."""
        rings = [ring for entry in entries.values() for ring in entry.usage.rings.values()]
        try:
            update_statistics(rings, self._weights)
        except Exception:  # noqa: BLE001 - whatever it is, it is logged with its node
            for node, entry in entries.items():
                try:
                    entry.usage.update_statistics()
                except Exception:
                    log.exception("the stored usage of node %r is not valid: it starts without", node)
                    entry.usage = self.new_tracker()
