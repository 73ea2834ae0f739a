"""Sort order, filter and scroll position, and how keys change them. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

SORTS = {"c": "cpu", "m": "memory", "d": "disk", "n": "network", "w": "watts", "p": "pressure", "a": "name"}
"""Sort orders by key."""

HELP = (
    "sort by: " + ", ".join(f"{key} {order}" for key, order in SORTS.items()),
    "r: reverse the order",
    "/: filter by name",
    "Tab: nodes or containers",
    "arrows, PgUp, PgDn, Home, End: scroll",
    "?: close this",
    "q: quit",
)


@dataclass(frozen=True, slots=True)
class View:
    """Rows to show, their order, and the scroll position."""

    sort: str = "watts"
    reverse: bool = False
    filter: str = ""
    typing: bool = False
    """Whether keys edit the filter."""
    first: int = 0
    """The first visible row."""
    nodes: bool = False
    """Show nodes instead of containers."""
    help: bool = False


@dataclass(frozen=True, slots=True)
class Viewport:
    """Number of rows, and how many of them are visible."""

    rows: int
    visible: int

    def clamp(self, first: int) -> int:
        """The nearest first row that fills the viewport."""
        return max(0, min(first, self.rows - self.visible))


def press(view: View, key: str, viewport: Viewport) -> View | None:
    """The view after a key; None quits."""
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
        case _ if key in _SCROLLS:
            first = viewport.clamp(view.first)
            return replace(view, first=viewport.clamp(_SCROLLS[key](first, viewport)))
        case _:
            return view


_SCROLLS: Mapping[str, Callable[[int, Viewport], int]] = {
    "up": lambda first, _: first - 1,
    "down": lambda first, _: first + 1,
    "page up": lambda first, viewport: first - viewport.visible,
    "page down": lambda first, viewport: first + viewport.visible,
    "home": lambda _first, _viewport: 0,
    "end": lambda _, viewport: viewport.rows,
}


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
