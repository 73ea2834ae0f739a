"""What a benchmark is made of: figures with bounds, a result, and a way to show progress."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TextIO

_BAR_CELLS = 30
_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_LOOKS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number that was measured, and what it may be at most or must be at least.

    A value of None was asked for and could not be measured; that keeps no bound.
    """

    name: str
    value: float | None
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def ok(self) -> bool:
        """True if every bound is kept; a figure without a bound is there to be read."""
        if self.at_most is None and self.at_least is None:
            return True
        # Asked this way round, a value that is not a number keeps no bound either.
        return (
            self.value is not None
            and (self.at_most is None or self.value <= self.at_most)
            and (self.at_least is None or self.value >= self.at_least)
        )

    def __str__(self) -> str:
        value = "not measured" if self.value is None else f"{self.value:.4g} {self.unit}"
        sides = (("at most", self.at_most), ("at least", self.at_least))
        bounds = [f"{side} {bound:g}" for side, bound in sides if bound is not None]
        return f"{self.name}: {value}" + (f" ({', '.join(bounds)})" if bounds else "")

    def as_json(self) -> dict[str, object]:
        bounds = {"at_most": self.at_most, "at_least": self.at_least}
        is_number = self.value is not None and float("-inf") < self.value < float("inf")
        return {
            "value": self.value if is_number else None,
            "unit": self.unit,
            "bound": {side: bound for side, bound in bounds.items() if bound is not None} or None,
            "ok": self.ok,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """All figures of one benchmark, and the settings under which they were taken."""

    figures: tuple[Figure, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Comparisons whose needs are not met here, each with the reason."""

    def __post_init__(self) -> None:
        names = [figure.name for figure in self.figures]
        if len(set(names)) != len(names):
            raise ValueError(f"two figures share a name: {sorted(names)}")

    @property
    def ok(self) -> bool:
        """True if every figure keeps its bounds, and there is one at all."""
        return bool(self.figures) and all(figure.ok for figure in self.figures)

    def as_json(self) -> dict[str, object]:
        return {
            "settings": dict(self.settings),
            "figures": {figure.name: figure.as_json() for figure in self.figures},
            "left_out": dict(self.left_out),
            "ok": self.ok,
        }


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
        """Print one line that stays."""
        print(text, file=self._stream, flush=True)

    @contextmanager
    def track(self, label: str, total: float, unit: str = "") -> Iterator[Callable[[float], None]]:
        """Show the progress of work; the function that this yields takes the amount done so far."""
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
        """Let time pass, visibly."""
        began_seconds = self._clock()
        with self.track(label, seconds, " s") as show:
            while (left_seconds := seconds - (self._clock() - began_seconds)) > 0:
                self._sleep(min(left_seconds, _SECONDS_BETWEEN_LOOKS))
                show(self._clock() - began_seconds)


class Benchmark(Protocol):
    """What a benchmark's module offers.

    One that needs data, a part of the lab or a peer declares that in `needs(options)` as well, which gives
    `bench.requirements.Need`s; they are checked before `run`, which finds in `options.left_out` the
    comparisons that cannot be made.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, options: argparse.Namespace, progress: Progress) -> Result: ...
