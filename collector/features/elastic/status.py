"""The state of an elastic service: for the next decision, for the API, and for the history."""

import logging
from collections.abc import Iterable, Mapping

import msgspec

from collector.features.elastic.scaling.interface import Target

log = logging.getLogger(__name__)

STORED_STATES = "elastic"
"""Kind of the stored values, by service."""
_VERSION = 1
_KEPT_GONE, _KEPT_SECONDS = 1000, 7 * 86_400.0
"""How many services that are gone keep their state, and for how long: they may come back."""


class ElasticStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An elastic service."""

    service: str
    policy: str
    target: Target
    """Its target and bounds."""
    source: str
    """Where its metric comes from: `probe` or `query`."""
    decided_at: float | None = None
    """Time of the last decision; null before the first."""
    metric: float | None = None
    """The metric at the last decision; null if unknown."""
    requests: int | None = None
    """Probed requests since the previous decision; null if the metric comes from a query."""
    failed: int | None = None
    """How many of these requests failed."""
    replicas: int | None = None
    """Desired replicas in the orchestrator before the last decision."""
    running: int | None = None
    """Running replicas at the last decision."""
    cpu_limit_cores: float | None = None
    """CPU limit of each replica before the last decision; null without a limit."""
    cpu_used_cores: float | None = None
    """CPU time of all replicas since the previous decision, in cores; null if unknown."""
    used_core_watts: float | None = None
    """Power of one more core in use on its nodes."""
    wanted_replicas: int | None = None
    """Replicas that the last decision calls for."""
    wanted_cpu_limit_cores: float | None = None
    """CPU limit of each replica that the last decision calls for; null without a limit."""
    reasons: tuple[str, ...] = ()
    """The policy's reasons for the last decision."""
    explored: bool = False
    """Whether the last decision tries a size to learn its effect."""
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


class StoredElasticState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an elastic service that survives a restart."""

    version: int = _VERSION
    learned: bytes = b""
    """The state of the policy, opaque."""
    status: ElasticStatus


def expired_services(gone: Iterable[ElasticStatus], now: float) -> list[str]:
    """Return the services whose state is deleted, out of those that are gone."""
    ended = sorted(((each.decided_at or 0.0, each.service) for each in gone), reverse=True)
    return [name for rank, (at, name) in enumerate(ended) if rank >= _KEPT_GONE or at < now - _KEPT_SECONDS]


def pack_state(state: StoredElasticState) -> bytes:
    """Encode a state for the history."""
    return msgspec.msgpack.encode(state)


def unpack_states(values: Mapping[str, bytes]) -> dict[str, StoredElasticState]:
    """Decode the states of a history, without those of another version."""
    found = {}
    for service, packed in values.items():
        try:
            state = msgspec.msgpack.decode(packed, type=StoredElasticState)
        except msgspec.MsgspecError as error:
            log.warning(
                "the stored state of elastic service %s cannot be read, and is ignored: %s", service, error
            )
            continue
        if state.version == _VERSION:
            found[service] = state
    return found
