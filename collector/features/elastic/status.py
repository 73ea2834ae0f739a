"""The state of an elastic service: for the next decision, for the API, and for the history."""

from collections.abc import Iterable

import msgspec

from collector.features.elastic.scaling.interface import Observation, Target

STORED_STATES = "elastic"
"""Kind of the stored values, by service."""
_KEPT_GONE, _KEPT_SECONDS = 1000, 7 * 86_400.0
"""How many services that are gone keep their state, and for how long: they may come back."""


class ElasticStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An elastic service."""

    service: str
    target: Target
    """The bound of its metric, the bounds of its size, and its policy."""
    decided_at: float | None = None
    """Time of the last decision; null before the first."""
    observed: Observation | None = None
    """The service at the last decision; null before the first."""
    wanted_replicas: int | None = None
    """Replicas that the last decision calls for."""
    wanted_cpu_limit_cores: float | None = None
    """CPU limit of each replica that the last decision calls for; null without a limit."""
    reasons: tuple[str, ...] = ()
    """The policy's reasons for the last decision."""
    changed_at: float | None = None
    """When its size was last changed; null if it was not."""
    change: str | None = None
    """Description of the last change; null if there was none."""
    change_reasons: tuple[str, ...] = ()
    """The policy's reasons for the last change."""
    decision: str | None = None
    """Id of the decision that made the last change, in `/v1/decisions`."""
    problem: str | None = None
    """Why nothing is decided, or a decision is not carried out; null if there is no problem."""


def expired_services(gone: Iterable[ElasticStatus], now: float) -> list[str]:
    """Return the services whose state is deleted, out of those that are gone."""
    ended = sorted(((each.decided_at or 0.0, each.service) for each in gone), reverse=True)
    return [name for rank, (at, name) in enumerate(ended) if rank >= _KEPT_GONE or at < now - _KEPT_SECONDS]


decode_state = msgspec.msgpack.Decoder(tuple[bytes, ElasticStatus]).decode
"""From a stored state: what the policy learned, and the status."""
