"""What the person at the keyboard chose to see, and how each key changes it. Pure."""

from dataclasses import dataclass, replace

SORTS = {
    "c": "cpu",
    "m": "memory",
    "d": "disk",
    "n": "network",
    "w": "watts",
    "p": "pressure",
    "a": "name",
}
"""By key: what to sort by."""

HELP = (
    "sort by: " + ", ".join(f"{key} {word}" for key, word in SORTS.items()),
    "r: the other way round",
    "/: filter by name",
    "Tab: nodes or containers",
    "arrows, PgUp, PgDn, Home, End: scroll",
    "?: close this",
    "q: quit",
)


@dataclass(frozen=True, slots=True)
class View:
    """A choice of rows, their order, and how far one has scrolled."""

    sort: str = "watts"
    reverse: bool = False
    filter: str = ""
    typing: bool = False
    """Whether keys go to the filter."""
    first: int = 0
    """The first row to be seen."""
    nodes: bool = False
    """Show nodes in place of containers."""
    help: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """How many rows there are, and how many of them the screen has room for."""

    rows: int
    visible: int

    def clamp(self, first: int) -> int:
        """The nearest row to start at that leaves no room unused."""
        return max(0, min(first, self.rows - self.visible))


def press(view: View, key: str, room: Room) -> View | None:
    """The view after a key; None is the end."""
    if view.typing:
        return _type(view, key)
    if key in SORTS:
        return replace(view, sort=SORTS[key], reverse=False, first=0)
    match key:
        case "q":
            return None
        case "r":
            return replace(view, reverse=not view.reverse, first=0)
        case "/":
            return replace(view, typing=True, help=False)
        case "?":
            return replace(view, help=not view.help)
        case "\t":
            return replace(view, nodes=not view.nodes, first=0)
        case "escape":
            return replace(view, filter="", help=False, first=0)
        case _:
            return replace(view, first=room.clamp(_scrolled(room.clamp(view.first), key, room)))


def _scrolled(first: int, key: str, room: Room) -> int:
    match key:
        case "up":
            return first - 1
        case "down":
            return first + 1
        case "page up":
            return first - room.visible
        case "page down":
            return first + room.visible
        case "home":
            return 0
        case "end":
            return room.rows
        case _:
            return first


def _type(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, typing=False)
        case "escape":
            return replace(view, typing=False, filter="", first=0)
        case "backspace":
            return replace(view, filter=view.filter[:-1], first=0)
        case _ if len(key) == 1 and key.isprintable():
            return replace(view, filter=view.filter + key, first=0)
        case _:
            return view
