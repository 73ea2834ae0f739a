"""Interprets the collector's responses: accepted, rejected or retry, how long to wait, clock offset."""

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    HTTPStatus.UNAUTHORIZED: "the token is not valid: check collector.token_file",
    HTTPStatus.FORBIDDEN: "the token or certificate is not valid for this node: check that its name matches",
    HTTPStatus.CONFLICT: "another machine reports under the name of this node: check node in agent.toml",
    HTTPStatus.NOT_FOUND: "there is no collector at this URL: check collector.url",
    HTTPStatus.METHOD_NOT_ALLOWED: "there is no collector at this URL: check collector.url",
}
_RETRYABLE = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}


@dataclass(frozen=True, slots=True)
class Rejected:
    """The collector will never accept this batch."""

    why: str
    is_too_large: bool = False


@dataclass(frozen=True, slots=True)
class Retry:
    """The collector did not accept the batch; it can be sent again."""

    why: str
    wait_seconds: float | None = None
    """Wait that the collector requested."""
    needs_attention: bool = False
    """It fails until a setting is changed."""


Response = Receipt | Rejected | Retry


def parse_response(status: int, headers: Mapping[str, str], body: bytes, sent: int) -> Response:
    """Interpret the HTTP response to a batch of so many reports; a receipt means that it is stored."""
    body_text = f"{status} {body[:_MAX_TEXT].decode(errors='replace')}".strip()
    if status == HTTPStatus.OK:
        try:
            receipt = parse_receipt(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            why = f"the response is not a receipt ({error}): check that collector.url is a collector"
            return Retry(why, needs_attention=True)
        received = receipt.accepted + receipt.duplicates + receipt.rejected
        if received != sent:
            why = f"the receipt is for {received} reports instead of {sent}: check collector.url"
            return Retry(why, needs_attention=True)
        return receipt
    if status in _MISCONFIGURED:
        return Retry(f"{_MISCONFIGURED[HTTPStatus(status)]} ({body_text})", needs_attention=True)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        elsewhere = headers.get("Location", "elsewhere")
        return Retry(f"redirected to {elsewhere} ({status}): check collector.url", needs_attention=True)
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _RETRYABLE:
        return Rejected(body_text, is_too_large=status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return Retry(body_text, parse_retry_after(headers))


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by the Retry-After header; None without it. No collector sends a date in it."""
    value = headers.get("Retry-After", "").strip()[:_MAX_TEXT]
    return min(float(value), _MAX_WAIT_SECONDS) if value.isascii() and value.isdigit() else None


class Backoff:
    """Time to wait after a failure: it grows with each one, with jitter."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance = chance
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def wait_seconds(self, requested_seconds: float | None = None, *, needs_attention: bool = False) -> float:
        """The wait after another failure; at least the requested wait."""
        backoff = _BACKOFF_SECONDS[min(self._failures, len(_BACKOFF_SECONDS) - 1)]
        self._failures += 1
        # Jitter keeps the nodes of a cluster from retrying at the same time.
        if requested_seconds is not None:
            return max(requested_seconds, backoff) * (1 + _SPREAD * self._chance())
        if needs_attention and self._failures > len(_BACKOFF_SECONDS):
            backoff = _SLOW_SECONDS
        return backoff * (1 - 2 * _SPREAD * self._chance())


class ClockOffset:
    """The collector's clock minus this node's, from the times in receipts."""

    def __init__(self) -> None:
        self._offsets: deque[float] = deque(maxlen=_OFFSETS)

    def update(self, server_time: float, responded_at: float, took_seconds: float) -> None:
        """Add one receipt; `responded_at` is this node's wall clock when it arrived.

        The collector read its clock at some time during the request; the middle is off by half the request at
        most. So only fast responses count, and the median of a few.
        """
        if took_seconds <= _QUICK_SECONDS:
            self._offsets.append(server_time - (responded_at - took_seconds / 2))

    @property
    def seconds(self) -> float | None:
        """None before the first receipt."""
        return median(self._offsets) if self._offsets else None
