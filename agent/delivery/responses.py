"""What the collector's answers mean: whether to go on, how long to wait, and what time it is there."""

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from statistics import median

import msgspec

from wire.messages import Receipt, parse_receipt

_MAX_TEXT = 300
_MAX_WAIT_SECONDS = 900.0
_BACKOFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
_SLOW_SECONDS = 120.0
_SPREAD = 0.25
_QUICK_SECONDS = 1.0
_OFFSETS = 5

_MISCONFIGURED = {
    HTTPStatus.UNAUTHORIZED: "it does not know this node: check collector.token_file",
    HTTPStatus.FORBIDDEN: "it does not let this node in: check that its token or certificate is for its name",
    HTTPStatus.NOT_FOUND: "nothing takes reports there: check collector.url",
    HTTPStatus.METHOD_NOT_ALLOWED: "nothing takes reports there: check collector.url",
}
_RETRYABLE = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The collector has the batch."""

    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Rejected:
    """The collector will never take the batch as it is."""

    why: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The collector did not take the batch now."""

    why: str
    wait_seconds: float | None = None
    """How long it asked to be left in peace."""
    needs_attention: bool = False
    """It will go on so until someone changes a setting."""


Response = Accepted | Rejected | Retry


def parse_response(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Response:
    """Understand an HTTP answer to a batch."""
    body_text = f"{status} {body[:_MAX_TEXT].decode(errors='replace')}".strip()
    if status == HTTPStatus.OK:
        try:
            return Accepted(parse_receipt(body))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            why = f"what it answers is no receipt ({error}): check that collector.url leads to a collector"
            return Retry(why, needs_attention=True)
    if status in _MISCONFIGURED:
        return Retry(f"{_MISCONFIGURED[HTTPStatus(status)]} ({body_text})", needs_attention=True)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        elsewhere = headers.get("Location", "elsewhere")
        return Retry(f"it points to {elsewhere} ({status}): check collector.url", needs_attention=True)
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _RETRYABLE:
        return Rejected(body_text)
    return Retry(body_text, parse_retry_after(headers, now))


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds to wait that a header asks for, as a number or as a date; None if it does not."""
    asked = headers.get("Retry-After", "").strip()
    if asked.isascii() and asked.isdigit():
        return min(float(asked), _MAX_WAIT_SECONDS)
    until = _parse_date(asked)
    if until is None:
        return None
    # By the collector's own clock, where it tells: ours may be wrong.
    since = _parse_date(headers.get("Date", ""))
    return min(max(0.0, until - (now if since is None else since)), _MAX_WAIT_SECONDS)


def _parse_date(text: str) -> float | None:
    try:
        date: datetime = parsedate_to_datetime(text)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


class Backoff:
    """How long to wait after a failure: longer each time, and never as long as everyone else."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance = chance
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def wait_seconds(self, requested_seconds: float | None = None, *, needs_attention: bool = False) -> float:
        """The wait after one more failure; never less than what was asked for."""
        backoff = _BACKOFF_SECONDS[min(self._failures, len(_BACKOFF_SECONDS) - 1)]
        self._failures += 1
        # Jitter, so that a whole cluster does not come back in the same instant.
        if requested_seconds is not None:
            return max(requested_seconds, backoff) * (1 + _SPREAD * self._chance())
        if needs_attention and self._failures > len(_BACKOFF_SECONDS):
            backoff = _SLOW_SECONDS
        return backoff * (1 - 2 * _SPREAD * self._chance())


class ClockOffset:
    """How far the collector's clock is ahead of this node's, from the times in its receipts."""

    def __init__(self) -> None:
        self._offsets: deque[float] = deque(maxlen=_OFFSETS)

    def update(self, server_time: float, answered_at: float, took_seconds: float) -> None:
        """Take in one receipt; `answered_at` is this node's wall clock when it came.

        Somewhere within the request the collector looked at its clock; the middle is the best guess, wrong
        by half the request at most. So only quick answers count, and the median of a few.
        """
        if took_seconds <= _QUICK_SECONDS:
            self._offsets.append(server_time - (answered_at - took_seconds / 2))

    @property
    def seconds(self) -> float | None:
        return median(self._offsets) if self._offsets else None
