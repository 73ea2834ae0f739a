"""Lines of styled text: what the drawing modules make, and a terminal shows. Pure."""

from enum import Enum, auto


class Style(Enum):
    """What a piece of text is; whoever can show colours chooses them."""

    PLAIN = auto()
    TITLE = auto()
    HEAD = auto()
    SORTED = auto()
    FAINT = auto()
    GOOD = auto()
    WARM = auto()
    HOT = auto()


Span = tuple[str, Style]
Line = tuple[Span, ...]


def style_of(share: float | None) -> Style:
    """Good up to 70 %, hot from 90 % on."""
    if share is None:
        return Style.FAINT
    return Style.HOT if share >= 0.9 else Style.WARM if share >= 0.7 else Style.GOOD  # noqa: PLR2004 - see above


def cut(line: Line, width: int) -> Line:
    """The part of a line that fits."""
    spans = []
    for text, style in line:
        spans.append((shortened(text, width), style))
        width -= len(text)
        if width <= 0:
            break
    return tuple(spans)


def spaced(cells: Line, width: int) -> Line:
    """Cells with a column of nothing between them, and the rest of the line filled."""
    line: list[Span] = []
    for text, style in cells:
        line += [(text, style), (" ", Style.HEAD)]
    used = sum(len(text) for text, _ in line)
    return (*line[:-1], (" " * max(1, width - used), Style.HEAD))


def shortened(text: str, width: int) -> str:
    """The text, or as much of it as fits with a sign that there is more."""
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"[: max(0, width)]


def plain(line: Line) -> str:
    """Only the text."""
    return "".join(text for text, _ in line)


def printable(text: str) -> str:
    """Without what would move the cursor: names come from strangers."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def bar(share: float | None, width: int) -> str:
    """`[||||    ]`; empty where nothing is known."""
    inside = max(0, width - 2)
    filled = 0 if share is None else min(inside, round(share * inside))
    return f"[{'|' * filled}{' ' * (inside - filled)}]"
