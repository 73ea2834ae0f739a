"""Tables in Markdown, for pages that are generated from results."""

from collections.abc import Iterable, Sequence


def table_head(cells: Sequence[str]) -> tuple[str, str]:
    """The header of a table, and the line below it."""
    return table_row(cells), "|---" * len(cells) + "|"


def table_row(cells: Iterable[str]) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"
