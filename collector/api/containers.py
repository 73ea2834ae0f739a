"""Containers: all, one, and what one used."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.analysis.analysis import Analysis
from collector.analysis.envelopes import Statistic
from collector.analysis.usage import quantities
from collector.api.nodes import WINDOW_SECONDS, Window
from collector.api.queries import HistoryQuery, Paged, Pager, has_label, series
from collector.common.errors import ApiError
from collector.common.liveness import LivenessLabel
from collector.core.parts import Core
from collector.history.interface import Mean, Series, SubjectKind
from collector.live.registry import NodeEntry
from collector.snapshot.tables import NOWHERE
from collector.web.routes import NO_HISTORY, Route, get, refused
from wire.messages import ContainerPower, ContainerState, Pressure
from wire.resources import Quantities

NO_CONTAINER = refused(HTTPStatus.NOT_FOUND, "There is no container of this id.")


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container as its node last described it."""

    node: str
    node_state: LivenessLabel
    """Unless it is `up`, all the rest is as it last was."""
    id: str
    name: str
    runtime: str
    image: str | None
    service: str | None
    labels: dict[str, str]
    cpu_seconds_total: float
    cpu_throttled_seconds_total: float | None
    oom_kills_total: int | None
    restarts: int | None
    used: Quantities
    limit: Quantities
    pressure: Pressure
    power: ContainerPower | None
    started_at: float | None
    sampled_at: float
    """Unix time of the end of the window that `used` tells of, by the node's clock."""
    window_seconds: float
    """The time that `used`, `pressure` and `power.watts` are the mean of."""
    p90: Quantities
    """What it did not exceed in nine of ten samples of the last day, from a histogram of every sample."""
    p90_samples: int
    """How many samples that is; 0 until the first heartbeat that brings them."""
    envelope: Quantities
    """What it is reckoned to need, by the number that stands for each resource's need."""
    group: str | None
    """The class of containers with a like need, named by what they need most; null while it is not known."""
    mean: Mean | None
    """Over the window asked for; null while the node is down."""


class Containers(msgspec.Struct, frozen=True):
    """A page of containers, by node, then by name and id."""

    containers: list[Container]
    next: str | None
    """The cursor to the rest; null at the end."""


class ContainersQuery(Paged, frozen=True, kw_only=True):
    """Which containers are asked for, and how."""

    node: Annotated[str | None, Meta(description="Only those on the node of this name.")] = None
    name: Annotated[str | None, Meta(description="Only those of this name.")] = None
    service: Annotated[str | None, Meta(description="Only those of this service.")] = None
    label: Annotated[str | None, Meta(description="Only those with this label: `KEY`, or `KEY=VALUE`.")] = (
        None
    )
    group: Annotated[
        str | None, Meta(description="Only those of this class, as `/v1/groups` names them.")
    ] = None
    window_seconds: Window = WINDOW_SECONDS


class ContainerQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which container is asked for."""

    id: Annotated[str, Meta(description="The container's id, whole.")]
    window_seconds: Window = WINDOW_SECONDS


class ContainerHistoryQuery(HistoryQuery, frozen=True, kw_only=True):
    """Which container's history is asked for."""

    id: Annotated[str, Meta(description="The container's id, whole.")]


def container_answer(entry: NodeEntry, container_id: str) -> Container:
    """One of a node's containers. `group` and `mean` are not filled in."""
    reported, ring = entry.run.containers[container_id], entry.usage_of(container_id)
    container = reported.value
    return Container(
        node=entry.name,
        node_state=entry.liveness.label,
        id=container.id,
        name=container.name,
        runtime=container.runtime,
        image=container.image,
        service=container.service,
        labels=container.labels,
        cpu_seconds_total=container.cpu_seconds_total,
        cpu_throttled_seconds_total=container.cpu_throttled_seconds_total,
        oom_kills_total=container.oom_kills_total,
        restarts=container.restarts,
        used=container.used,
        limit=container.limit,
        pressure=container.pressure,
        power=container.power,
        started_at=container.started_at,
        sampled_at=reported.at,
        window_seconds=container.window_seconds,
        p90=ring.p90,
        p90_samples=ring.samples,
        envelope=quantities(ring.statistics[:, Statistic.ENVELOPE]),
        group=None,
        mean=None,
    )


Seen = tuple[NodeEntry, ContainerState]
"""A container and where it runs, before it is made into an answer: most are passed over."""
BY_NODE: Pager[Seen, tuple[str, str, str]] = Pager(
    lambda seen: (seen[0].name, seen[1].name, seen[1].id), tuple[str, str, str]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which containers are asked for; None means whichever."""

    node: str | None = None
    name: str | None = None
    service: str | None = None
    label: str | None = None
    group: int | None = None


def seen(core: Core, query: Paged, asked: Asked) -> Iterator[Seen]:
    """The containers asked for, by node, then by name and id, from the node on that the cursor is at."""
    after = BY_NODE.after(query)
    is_labelled = None if asked.label is None else has_label(asked.label)
    for known, ids in _places(core, asked, after[0] if after else ""):
        there = [known.run.containers[each].value for each in ids]
        found = there if is_labelled is None else [each for each in there if is_labelled(each.labels)]
        for container in sorted(found, key=lambda each: (each.name, each.id)):
            yield known, container


def _places(core: Core, asked: Asked, since: str) -> Iterator[tuple[NodeEntry, Iterable[str]]]:
    """Nodes by name, and those of their containers that are asked for, whatever their labels."""
    now, known = core.clock(), core.registry.nodes
    if asked.name is None and asked.service is None and asked.group is None:
        for each in known(now, node=asked.node, since=since):
            yield each, each.run.containers
        return
    services = None if asked.service is None else (asked.service,)
    found = core.registry.tables.find(services=services, name=asked.name, group=asked.group)
    for node in sorted(found):
        if node >= since and asked.node in (None, node):
            for each in known(now, node=node):
                yield each, found[node]


async def containers(core: Core, query: ContainersQuery) -> Containers:
    """What containers use, now and on average."""
    found, after = BY_NODE.page(_asked_for(core, query), query)
    listed = [container_answer(known, container.id) for known, container in found]
    return Containers(await _with_more(core, listed, query.window_seconds), after)


def _asked_for(core: Core, query: ContainersQuery) -> Iterable[Seen]:
    numbers = {each.name: each.number for each in core.analysis.latest.groups}
    if query.group is not None and query.group not in numbers:
        return ()
    asked = Asked(
        node=query.node,
        name=query.name,
        service=query.service,
        label=query.label,
        group=None if query.group is None else numbers[query.group],
    )
    return seen(core, query, asked)


def _group_of(understanding: Analysis, container: Container) -> str | None:
    ids = understanding.task_ids
    # Where two nodes claim one id, a snapshot puts the node before it.
    for name in (container.id, f"{container.node}/{container.id}"):
        row = bisect_left(ids, name)
        if row < len(ids) and ids[row] == name:
            number = int(understanding.group_of[row])
            return None if number == NOWHERE else _names(understanding).get(number)
    return None


def _names(understanding: Analysis) -> dict[int, str]:
    return {each.number: each.name for each in understanding.groups}


async def _with_more(core: Core, listed: list[Container], window_seconds: float) -> list[Container]:
    """The same, with what it takes longer to know."""
    now = core.clock()
    nodes = dict.fromkeys(each.node for each in listed)
    standings = [each for node in nodes for each in core.registry.window_ends(now, node=node)]
    means = await core.history.container_means(window_seconds, standings)
    latest = core.analysis.latest
    return [
        msgspec.structs.replace(each, mean=means.get((each.node, each.id)), group=_group_of(latest, each))
        for each in listed
    ]


async def one_container(core: Core, query: ContainerQuery) -> Container:
    """One container; where two nodes claim its id, as the one tells that is heard of."""
    claimed = [each for each in core.registry.nodes(core.clock()) if query.id in each.run.containers]
    if not claimed:
        raise _no_such_container(query.id)
    known = min(claimed, key=lambda each: (each.liveness, each.name))
    [found] = await _with_more(core, [container_answer(known, query.id)], query.window_seconds)
    return found


async def container_history(core: Core, query: ContainerHistoryQuery) -> Series:
    """What one container used and drew; one that has ended still has a history."""
    told = await series(core, SubjectKind.CONTAINER, query.id, query)
    if not told.points and not any(
        query.id in each.run.containers for each in core.registry.nodes(core.clock())
    ):
        raise _no_such_container(query.id)
    return told


def _no_such_container(name: str) -> ApiError:
    detail = f"there is no container {name!r}: /v1/containers lists them with their ids"
    return ApiError(HTTPStatus.NOT_FOUND, detail, "id")


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/containers",
        "Running containers, with what they use and draw.",
        Containers,
        containers,
        query=ContainersQuery,
        refusals=NO_HISTORY,
    ),
    get(
        "/v1/containers/{id}",
        "One running container.",
        Container,
        one_container,
        query=ContainerQuery,
        refusals={**NO_CONTAINER, **NO_HISTORY},
    ),
    get(
        "/v1/containers/{id}/history",
        "What one container used and drew over time: the last hour, unless told otherwise.",
        Series,
        container_history,
        query=ContainerHistoryQuery,
        refusals={**NO_CONTAINER, **NO_HISTORY},
    ),
)
