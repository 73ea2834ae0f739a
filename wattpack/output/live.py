"""Text that is redrawn in place: at the bottom of a terminal with log lines above it, or a progress bar."""

import logging
import math
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import terminal_size
from typing import TextIO

_CLEAR_BELOW = "\x1b[J"
_CELLS = 30


def rows_of(text: str, columns: int) -> int:
    """The rows of a terminal that `text` takes, with lines that wrap."""
    return sum(max(1, math.ceil(_cells(line) / max(1, columns))) for line in text.split("\n"))


def _cells(line: str) -> int:
    return sum(_WIDTHS.get(unicodedata.east_asian_width(each), 1) for each in line if not _joins(each))


_WIDTHS = {"W": 2, "F": 2}


def _joins(character: str) -> bool:
    return unicodedata.category(character) in {"Mn", "Me", "Cf"}


class LiveText:
    """The last text on a terminal; each new text replaces it."""

    def __init__(self, terminal: TextIO, size: Callable[[], terminal_size]) -> None:
        self._terminal, self._size = terminal, size
        self._text = ""
        self._rows = 0

    def show(self, text: str) -> None:
        """Draw in place of the last text."""
        self.clear()
        self._terminal.write(f"{text}\n")
        self._terminal.flush()
        self._text, self._rows = text, rows_of(text, self._size().columns)

    def clear(self) -> None:
        """Remove the last text, so that other lines can take its place."""
        if self._rows:
            self._terminal.write(f"\x1b[{self._rows}F{_CLEAR_BELOW}")
            self._terminal.flush()
        self._rows = 0

    def restore(self) -> None:
        """Draw the last text again after `clear`."""
        if self._text:
            self.show(self._text)


class LinesAbove(logging.Handler):
    """Passes records to another handler, which writes to the same terminal, above the text."""

    def __init__(self, handler: logging.Handler, text: LiveText) -> None:
        super().__init__(handler.level)
        self._handler, self._text = handler, text

    def emit(self, record: logging.LogRecord) -> None:
        self._text.clear()
        self._handler.handle(record)
        self._text.restore()


@contextmanager
def progress_bar(what: str, done: float = 0.0) -> Iterator[Callable[[float], None]]:
    """Show which share of the work is done, until the block ends."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return

    def show(done: float) -> None:
        filled = round(_CELLS * min(1.0, done))
        bar = "#" * filled + "." * (_CELLS - filled)
        print(f"\r\033[K[{bar}] {what}", end="", file=sys.stderr, flush=True)

    show(done)
    try:
        yield show
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
