"""Energy4Cloud's registries: hosts by region and class, tasks by host and class, each list in its order.

A host is as busy as the busier of its CPU and memory; a task likewise, by what it was promised. Hosts of the
regions LEE and DEE stand from the fullest to the emptiest, those of EED the other way round; tasks from the
least used to the most, a new one at the end until it is heard of again, as its first moments tell little. A
host's class is the strictest among its tasks; one without tasks takes any, and stands with the laxest.

Shares, in which the thesis counts CPU, are 1024 to a core; everything here counts cores.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from collector.live.ordered import OrderedLists
from collector.snapshot.tables import DEGRADED_RATIO, DESIRED_RATIO, Region

CLASSES = (1, 2, 3, 4)
_LAXEST = CLASSES[-1]


class Lists:
    """Who stands where."""

    def __init__(self) -> None:
        self._hosts: OrderedLists[tuple[Region, int], str] = OrderedLists()
        self._tasks: OrderedLists[tuple[str, int], tuple[str, str]] = OrderedLists()
        self._use: dict[str, float] = {}

    def put_task(self, node: str, container: str, task_class: int, use_ratio: float) -> None:
        """A container was heard of."""
        key = (node, container)
        is_new = self._tasks.where(key) is None
        self._tasks.put(key, (node, task_class), inf if is_new else use_ratio)

    def drop_task(self, node: str, container: str) -> None:
        self._tasks.drop((node, container))

    def put_host(self, node: str, use_ratio: float | None) -> None:
        """A host was heard of, after its tasks were; None means that it is used as before."""
        use = self._use[node] = self._use.get(node, 0.0) if use_ratio is None else use_ratio
        region = _region(use)
        task_class = self.task_class(node) or _LAXEST
        self._hosts.put(node, (region, task_class), use if region is Region.EED else -use)

    def drop_host(self, node: str) -> None:
        """Let a host go, and its tasks."""
        self._use.pop(node, None)
        self._hosts.drop(node)
        for each in CLASSES:
            for key in list(self._tasks.listed((node, each))):
                self._tasks.drop(key)

    def __contains__(self, node: str) -> bool:
        """Whether a host is there."""
        return node in self._use

    def region(self, node: str) -> Region:
        """The region of a host that is there."""
        return _region(self._use[node])

    def task_class(self, node: str) -> int | None:
        """The class of a host; None without tasks."""
        return next((each for each in CLASSES if (node, each) in self._tasks), None)

    def hosts(self, regions: Iterable[Region], classes: Sequence[int] = CLASSES) -> Iterator[str]:
        """Hosts by region, then by class, then as their list has them."""
        for region in regions:
            for each in classes:
                yield from self._hosts.listed((region, each))

    def tasks(self, node: str, task_class: int) -> Iterator[str]:
        """Ids of a host's containers of one class, the least used first."""
        return (container for _, container in self._tasks.listed((node, task_class)))


def _region(use: float) -> Region:
    if use < DESIRED_RATIO:
        return Region.LEE
    return Region.DEE if use <= DEGRADED_RATIO else Region.EED
