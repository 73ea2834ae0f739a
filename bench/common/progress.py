"""Progress of a benchmark: a bar on a terminal, or lines in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_BAR_CELLS = 30
_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_UPDATES = 0.25


class Progress:
    """Shows progress: a bar on a terminal, a line from time to time elsewhere."""

    def __init__(
        self,
        stream: TextIO = sys.stderr,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._sleep = sleep
        self._is_terminal = stream.isatty()

    def say(self, text: str) -> None:
        """Print a line."""
        print(text, file=self._stream, flush=True)

    @contextmanager
    def track(self, label: str, total: float, unit: str = "") -> Iterator[Callable[[float], None]]:
        """Show progress; the yielded function takes the amount done so far."""
        printed_seconds = self._clock()
        printed = f"{label}: 0 of {total:g}{unit}"

        def show(done: float) -> None:
            nonlocal printed, printed_seconds
            text = f"{label}: {min(done, total):.4g} of {total:g}{unit}"
            if self._is_terminal:
                filled = round(_BAR_CELLS * min(done, total) / total) if total else _BAR_CELLS
                bar = "#" * filled + "." * (_BAR_CELLS - filled)
                print(f"\r\033[K[{bar}] {text}", end="", file=self._stream, flush=True)
            elif text != printed and self._clock() - printed_seconds >= _SECONDS_BETWEEN_LINES:
                printed, printed_seconds = text, self._clock()
                self.say(text)

        if self._is_terminal:
            show(0)
        else:
            self.say(printed)
        try:
            yield show
        finally:
            if self._is_terminal:
                print(file=self._stream, flush=True)

    def wait(self, label: str, seconds: float) -> None:
        """Wait, and show how much time has passed."""
        began_seconds = self._clock()
        with self.track(label, seconds, " s") as show:
            while (left_seconds := seconds - (self._clock() - began_seconds)) > 0:
                self._sleep(min(left_seconds, _SECONDS_BETWEEN_UPDATES))
                show(self._clock() - began_seconds)
