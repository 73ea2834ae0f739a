"""Which container replaced which in a move: a move ends one container and starts another with a new id."""

from collections.abc import Iterable, Iterator

from collector.live.updates import Succession


class Successions:
    """All successions whose containers are still there. Not thread-safe."""

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
        """Forget a succession."""
        del self._by_container[succession.container]
        del self._by_predecessor[succession.predecessor]
        self._continued.discard(succession.container)
