"""What the engine says, read strictly: its list of containers, and the events of its stream. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from agent.sources.docker.info import ContainerInfo
from wire.messages import LONGEST_TEXT

MOST_LABELS = 64
_SHORT_ID = 12
_NANOSECONDS = 1_000_000_000
_NOT_LABELS = frozenset({"name", "image"})
"""What an event says of a container beside its labels, in the same table."""
_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
_GENERATED = re.compile(rf"(-{_RANDOM}{{8,10}}|-[0-9]{{8,}})?-{_RANDOM}{{5}}$|-[0-9]+$")


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """One line of `GET /events`."""

    action: str
    container_id: str
    unix_seconds: float
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.attributes.get("name") or self.container_id[:_SHORT_ID]

    @property
    def exit_code(self) -> int | None:
        try:
            return int(self.attributes.get("exitCode", ""))
        except ValueError:
            return None

    def describe(self) -> ContainerInfo:
        """The container that a start event speaks of: it carries all that there is to know."""
        return ContainerInfo(
            name=self.name,
            image=self.attributes.get("image"),
            service=service_of(self.attributes),
            started_at=self.unix_seconds,
            labels=bounded({key: value for key, value in self.attributes.items() if key not in _NOT_LABELS}),
            restarts=0,
        )


def service_of(labels: Mapping[str, str]) -> str | None:
    """The workload a container belongs to, as its orchestrator calls it."""
    if name := labels.get("com.docker.swarm.service.name"):
        return name
    project, service = labels.get("com.docker.compose.project"), labels.get("com.docker.compose.service")
    if project and service:
        return f"{project}/{service}"
    namespace, pod = labels.get("io.kubernetes.pod.namespace"), labels.get("io.kubernetes.pod.name")
    return f"{namespace}/{_workload(pod)}" if namespace and pod else None


def _workload(pod: str) -> str:
    """What a pod is one of: its name without what its controller put behind it.

    A Deployment's pods are called NAME-HASH-SUFFIX, a CronJob's NAME-MINUTES-SUFFIX, a Job's and a
    DaemonSet's NAME-SUFFIX, a StatefulSet's NAME-NUMBER. Generated parts have no vowels, so that they spell
    nothing: a word is not taken for one.
    """
    return _GENERATED.sub("", pod) or pod


def bounded(labels: Mapping[str, str]) -> dict[str, str]:
    """No more labels than can be said: the first by name, and their values cut short."""
    names = sorted(name for name in labels if len(name) <= LONGEST_TEXT)[:MOST_LABELS]
    return {name: labels[name][:LONGEST_TEXT] for name in names}


class _Listed(msgspec.Struct, rename="pascal"):
    id: str
    names: list[str] | None = None
    image: str | None = None
    labels: dict[str, str] | None = None


class _Actor(msgspec.Struct):
    id: str = msgspec.field(name="ID")
    attributes: dict[str, str] | None = msgspec.field(name="Attributes", default=None)


class _Event(msgspec.Struct):
    actor: _Actor = msgspec.field(name="Actor")
    action: str = msgspec.field(name="Action", default="")
    time_nanoseconds: int = msgspec.field(name="timeNano", default=0)


_listing_decoder = msgspec.json.Decoder(list[_Listed])
_event_decoder = msgspec.json.Decoder(_Event)


def parse_listing(body: bytes) -> Iterator[tuple[str, ContainerInfo]]:
    """Id and description of each container in an answer to `GET /containers/json`; raises `MsgspecError`."""
    for entry in _listing_decoder.decode(body):
        names = entry.names or [entry.id[:_SHORT_ID]]
        labels = entry.labels or {}
        yield (
            entry.id,
            ContainerInfo(
                # A legacy link is listed as another name with one more slash; the own name is the shortest.
                name=min(names, key=lambda name: name.count("/")).removeprefix("/"),
                image=entry.image,
                service=service_of(labels),
                labels=bounded(labels),
                restarts=0,
            ),
        )


def parse_event(line: bytes) -> EngineEvent:
    """One line of the stream; raises `MsgspecError`."""
    event = _event_decoder.decode(line)
    return EngineEvent(
        action=event.action,
        container_id=event.actor.id,
        unix_seconds=max(0.0, event.time_nanoseconds / _NANOSECONDS),
        attributes=event.actor.attributes or {},
    )
