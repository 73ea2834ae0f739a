"""Waiting for the lab's parts where they offer no event to wait for."""

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")


def eventually(check: Callable[[], Seen], timeout_seconds: float, *, every_seconds: float = 0.05) -> Seen:
    """Look again and again until `check` gives something true, and give that back.

    A check that raises AssertionError or OSError has not come true yet; when time is up, its last error is
    the cause of the TimeoutError.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        error: Exception | None = None
        try:
            if seen := check():
                return seen
        except (AssertionError, OSError) as failure:
            error = failure
        if time.monotonic() >= deadline:
            raise TimeoutError(f"did not come true within {timeout_seconds:g} s") from error
        time.sleep(every_seconds)
