"""The engine's container list and event stream, parsed strictly. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from wire.messages import MAX_IMAGES, MAX_NAME_LENGTH, MAX_TEXT_LENGTH

MAX_LABELS = 64
MAX_LABEL_BYTES = 4096
"""Maximum size of the labels of one container, so that a report with hundreds of containers is accepted."""
_EXIT_CODES = 2**31
_SHORT_ID = 12
_NANOSECONDS = 1_000_000_000
OWN_LABELS = "wattpack."
_NOT_LABELS = frozenset({"name", "image"})
"""Attributes of an event that are not container labels; the engine puts both in one table."""
_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
_GENERATED = re.compile(rf"(-{_RANDOM}{{8,10}}|-[0-9]{{8,}})?-{_RANDOM}{{5}}$|-[0-9]+$")


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """What the engine reports about a container, shortened to the limits of a report."""

    name: str
    image: str | None = None
    service: str | None = None
    """The service or workload it belongs to, in the orchestrator's naming."""
    started_at: float | None = None
    labels: dict[str, str] = field(default_factory=dict)
    restarts: int | None = None
    """Restarts under the same id since the agent first listed it.

    The engine's own count is not in its list, and one request per container would be too expensive. A count
    since the agent's start is enough to detect a crash loop.
    """
    startup_seconds: float | None = None
    """Time from the create event to the start event; None if the agent missed one of them."""


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """A start, exit or out-of-memory kill of a container."""

    kind: Literal["start", "die", "oom"]
    container_id: str
    name: str
    unix_seconds: float
    startup_seconds: float | None = None
    exit_code: int | None = None


class _Actor(msgspec.Struct):
    id: str = msgspec.field(name="ID")
    attributes: dict[str, str] | None = msgspec.field(name="Attributes", default=None)


class EngineEvent(msgspec.Struct, rename="pascal"):
    """One line of `GET /events`: of a container, or of an image."""

    actor: _Actor
    type: str = "container"
    action: str = ""
    time_nanoseconds: int = msgspec.field(name="timeNano", default=0)

    @property
    def container_id(self) -> str:
        return self.actor.id

    @property
    def attributes(self) -> Mapping[str, str]:
        return self.actor.attributes or {}

    @property
    def unix_seconds(self) -> float:
        return max(0.0, self.time_nanoseconds / _NANOSECONDS)

    @property
    def name(self) -> str:
        return self.attributes.get("name") or self.container_id[:_SHORT_ID]

    @property
    def exit_code(self) -> int | None:
        try:
            code = int(self.attributes.get("exitCode", ""))
        except ValueError:
            return None
        return code if -_EXIT_CODES <= code < _EXIT_CODES else None

    def describe(self) -> ContainerInfo:
        """The container of a start event, which carries its name, image and labels."""
        labels = {key: value for key, value in self.attributes.items() if key not in _NOT_LABELS}
        return _describe(self.name, self.attributes.get("image"), labels, self.unix_seconds)


def _describe(
    name: str, image: str | None, labels: Mapping[str, str], started_at: float | None = None
) -> ContainerInfo:
    service = service_of(labels)
    return ContainerInfo(
        name=name[:MAX_NAME_LENGTH],
        image=image and image[:MAX_TEXT_LENGTH],
        service=service and service[:MAX_TEXT_LENGTH],
        started_at=started_at,
        labels=limit_labels(labels),
        restarts=0,
    )


def service_of(labels: Mapping[str, str]) -> str | None:
    """The Swarm service, compose service or Kubernetes workload of a container; None without one."""
    if name := labels.get("com.docker.swarm.service.name"):
        return name
    project, service = labels.get("com.docker.compose.project"), labels.get("com.docker.compose.service")
    if project and service:
        return f"{project}/{service}"
    namespace, pod = labels.get("io.kubernetes.pod.namespace"), labels.get("io.kubernetes.pod.name")
    return f"{namespace}/{_workload(pod)}" if namespace and pod else None


def _workload(pod: str) -> str:
    """The name of a pod's workload: the pod's name without the suffix that its controller generated.

    Pods of a Deployment are named NAME-HASH-SUFFIX, of a CronJob NAME-MINUTES-SUFFIX, of a Job or DaemonSet
    NAME-SUFFIX, of a StatefulSet NAME-NUMBER. Generated parts contain no vowels, so a word is not mistaken
    for one.
    """
    return _GENERATED.sub("", pod) or pod


def limit_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels within the limits of a report: those of Wattpack first, then the shortest."""
    kept: dict[str, str] = {}
    room = MAX_LABEL_BYTES
    for name, value in sorted(labels.items(), key=_by_importance):
        text = value[:MAX_TEXT_LENGTH]
        room -= len(f"{name}{text}".encode(errors="replace"))
        if room < 0 or len(kept) == MAX_LABELS:
            break
        if len(name) <= MAX_TEXT_LENGTH:
            kept[name] = text
    return kept


def _by_importance(label: tuple[str, str]) -> tuple[bool, int, str]:
    name, value = label
    return not name.startswith(OWN_LABELS), len(name) + len(value), name


class _Listed(msgspec.Struct, rename="pascal"):
    id: str
    names: list[str] | None = None
    image: str | None = None
    labels: dict[str, str] | None = None


class _Image(msgspec.Struct, rename="pascal"):
    repo_tags: list[str] | None = None
    repo_digests: list[str] | None = None
    created: int = 0


def parse_listing(body: bytes) -> Iterator[tuple[str, ContainerInfo]]:
    """Id and description of each container from `GET /containers/json`; raises `MsgspecError`."""
    for entry in msgspec.json.decode(body, type=list[_Listed]):
        names = entry.names or [entry.id[:_SHORT_ID]]
        # A legacy link is listed as another name with one more slash.
        name = min(names, key=lambda name: name.count("/")).removeprefix("/")
        yield entry.id, _describe(name, entry.image, entry.labels or {})


def parse_event(line: bytes) -> EngineEvent:
    """One line of `GET /events`; raises `MsgspecError`."""
    return msgspec.json.decode(line, type=EngineEvent)


def parse_images(body: bytes, in_use: Iterable[str] = ()) -> tuple[str, ...]:
    """Names of the images from `GET /images/json`, at most `MAX_IMAGES`; raises `MsgspecError`.

    Names that containers use come first, then those of the newest images. Swarm pulls by digest, so that its
    images have no tag; the name that a container uses has both.
    """
    images = msgspec.json.decode(body, type=list[_Image])
    newest_first = sorted(images, key=lambda image: -image.created)
    listed = (name for image in newest_first for name in (image.repo_tags or []) + (image.repo_digests or []))
    names = dict.fromkeys(name for name in (*sorted(in_use), *listed) if _is_image_name(name))
    return tuple(sorted(list(names)[:MAX_IMAGES]))


def _is_image_name(name: str) -> bool:
    """Whether a name can be reported: not of an image without one, nor an id."""
    return 0 < len(name) <= MAX_NAME_LENGTH and "<none>" not in name and not name.startswith("sha256:")
