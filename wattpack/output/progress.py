"""A progress bar on standard error, if that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_CELLS = 30


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
