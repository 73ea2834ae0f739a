"""Waiting for parts of the lab that offer no event to wait for."""

import time
from collections.abc import Callable
from typing import TypeVar

Checked = TypeVar("Checked")


def eventually(
    check: Callable[[], Checked], timeout_seconds: float, *, every_seconds: float = 0.05
) -> Checked:
    """Poll until `check` returns a true value, and return that.

    A check that raises AssertionError or OSError is polled again; after the timeout, its last error is the
    cause of the TimeoutError.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        error: Exception | None = None
        try:
            if checked := check():
                return checked
        except (AssertionError, OSError) as failure:
            error = failure
        if time.monotonic() >= deadline:
            raise TimeoutError(f"did not come true within {timeout_seconds:g} s") from error
        time.sleep(every_seconds)
