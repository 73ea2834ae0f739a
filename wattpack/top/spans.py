"""Lines of styled text. Pure."""

from enum import Enum, auto


class Style(Enum):
    """Role of a piece of text; the terminal chooses its colour."""

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
    """Good below 70%, hot from 90%."""
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
    """Cells with a space between them, filled to the width."""
    line: list[Span] = []
    for text, style in cells:
        line += [(text, style), (" ", Style.HEAD)]
    used = sum(len(text) for text, _ in line)
    return (*line[:-1], (" " * max(1, width - used), Style.HEAD))


def shortened(text: str, width: int) -> str:
    """The text, cut to the width with an ellipsis."""
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"[: max(0, width)]


def plain(line: Line) -> str:
    """The text without styles."""
    return "".join(text for text, _ in line)


def bar(share: float | None, width: int) -> str:
    """`[||||    ]`; empty if unknown."""
    inside = max(0, width - 2)
    filled = 0 if share is None else min(inside, round(share * inside))
    return f"[{'|' * filled}{' ' * (inside - filled)}]"
