"""What Kubernetes asks, and where. Verbs stand at the end of the path, as kube-scheduler puts them there."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta

from collector.api.extender.models import (
    ExtenderArgs,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    Named,
    NodeList,
    SchedulerPod,
)
from collector.api.extender.pods import PodRequest, asking
from collector.api.extender.scheduling import points, sort_out
from collector.api.extender.watcher import WatcherMetrics, load
from collector.common.errors import ApiError
from collector.core.parts import Core
from collector.placement.question import resolve_policy
from collector.placement.ranking import rank
from collector.policies.interface import Ranking
from collector.snapshot.tables import Snapshot
from collector.web.bodies import JSON_TYPE, parse_body, read_body
from collector.web.routes import (
    NO_NODE,
    REFUSED_BODY,
    REFUSED_HOST,
    Answer,
    Route,
    get,
    parse_query,
    refused,
)
from collector.web.scopes import Scope
from wire.errors import UserError
from wire.messages import encode

log = logging.getLogger(__name__)
Args = TypeVar("Args", bound=msgspec.Struct)
_named = msgspec.json.Decoder(Named)


class ExtenderQuery(msgspec.Struct, frozen=True):
    """How a verb is asked, such as `filterVerb: filter?policy=draps`."""

    policy: Annotated[str | None, Meta(description="By what to decide, if not by what is configured.")] = None


class WatcherQuery(msgspec.Struct, frozen=True):
    """Whose load is asked for."""

    host: Annotated[str | None, Meta(description="Only of the node of this name.")] = None


async def _judged(
    core: Core, pod: SchedulerPod, policy_name: str | None
) -> tuple[Snapshot, PodRequest, Ranking]:
    chosen = resolve_policy(core.config, policy_name, {}, "place")
    policy, settings = chosen.policy, chosen.settings
    # Asked again about the same pod, what was answered before no longer counts.
    core.reservations.release(_name(pod))
    snapshot = await core.snapshot()
    try:
        asked = asking(pod, snapshot, core.config.placement.default_class)
    except UserError as complaint:
        raise ApiError(HTTPStatus.BAD_REQUEST, str(complaint), "$.Pod") from complaint
    left = core.reservations.left_by(asked.names, core.clock())
    core.snapshots.rehearse = partial(rank, request=asked.request, policy=policy, settings=settings)
    return snapshot, asked, rank(snapshot, asked.request, policy, settings, left)


def _name(pod: SchedulerPod) -> str:
    return f"pod/{pod.metadata.uid or f'{pod.metadata.namespace}/{pod.metadata.name}'}"


async def filtered(core: Core, args: ExtenderArgs, query: ExtenderQuery) -> ExtenderFilterResult:
    """Which nodes a pod may go to."""
    items = _items(args)
    names = list(items) if args.nodes is not None else (args.node_names or [])
    snapshot, asked, ranking = await _judged(core, args.pod, query.policy)
    found = sort_out(snapshot, ranking, names)
    log.debug("%s may go to %d of %d nodes", asked.pod, len(found.passed), len(names))
    nodes = args.nodes
    return ExtenderFilterResult(
        nodes=None
        if nodes is None
        else NodeList(metadata=nodes.metadata, items=[items[each] for each in found.passed]),
        node_names=found.passed if nodes is None else None,
        failed_nodes=found.failed,
        failed_and_unresolvable_nodes=found.unresolvable,
    )


async def prioritized(core: Core, args: ExtenderArgs, query: ExtenderQuery) -> list[HostPriority]:
    """How good each node is for a pod; the best is taken to be the one that it goes to, until that shows."""
    names = list(_items(args)) if args.nodes is not None else (args.node_names or [])
    snapshot, asked, ranking = await _judged(core, args.pod, query.policy)
    given = points(snapshot, ranking, names)
    seconds = core.config.placement.scheduled_seconds
    if seconds and max(given, default=0) > 0:
        best = names[given.index(max(given))]
        request = replace(asked.request, service=asked.pod)
        try:
            core.reservations.place(
                snapshot, request, best, now=core.clock(), seconds=seconds, name=_name(args.pod)
            )
        except UserError as complaint:
            log.warning("%s is not counted on %s meanwhile: %s", asked.pod, best, complaint)
    unknown = [name for name in names if name not in snapshot.nodes.index]
    if unknown:
        log.info("%d nodes get no points as no agent tells of them, such as %s", len(unknown), unknown[0])
    return [HostPriority(host=name, score=score) for name, score in zip(names, given, strict=True)]


async def preempted(
    core: Core, args: ExtenderPreemptionArgs, query: ExtenderQuery
) -> ExtenderPreemptionResult:
    """On which nodes it would help a pod if others left."""
    by_id = dict(args.node_name_to_meta_victims or {})
    for name, victims in (args.node_name_to_victims or {}).items():
        pods = [MetaPod(uid=each.metadata.uid) for each in victims.pods or ()]
        by_id[name] = MetaVictims(pods=pods, num_pdb_violations=victims.num_pdb_violations)
    snapshot, _, ranking = await _judged(core, args.pod, query.policy)
    hopeless = sort_out(snapshot, ranking, by_id).unresolvable
    return ExtenderPreemptionResult(
        node_name_to_meta_victims={name: victims for name, victims in by_id.items() if name not in hopeless}
    )


def _items(args: ExtenderArgs) -> dict[str, msgspec.Raw]:
    """The nodes that came whole, by name."""
    items = (args.nodes.items or []) if args.nodes is not None else []
    return {parse_body(bytes(item), _named.decode).metadata.name: item for item in items}


async def watched(core: Core, query: WatcherQuery) -> WatcherMetrics:
    """The load of the nodes."""
    snapshot = await core.snapshot()
    if query.host is not None and query.host not in snapshot.nodes.index:
        detail = f"there is no node {query.host}: /v1/nodes lists those there are"
        raise ApiError(HTTPStatus.NOT_FOUND, detail, "host")
    return load(snapshot, query.host)


def _verb(
    verb: str,
    summary: str,
    answer: Any,  # noqa: ANN401 - a type, or a list of one
    handler: Callable[[Core, Args, ExtenderQuery], Awaitable[Any]],
    body: type[Args],
) -> Route:
    decoder = msgspec.json.Decoder(body)

    async def serve(core: Core, request: web.Request) -> web.Response:
        query = parse_query(request, ExtenderQuery)
        args = parse_body(await read_body(request), decoder.decode)
        return web.Response(body=encode(await handler(core, args, query)), content_type=JSON_TYPE)

    return Route(
        method="POST",
        path=f"/v1/kubernetes/{verb}",
        summary=summary,
        serve=serve,
        query=ExtenderQuery,
        body=body,
        needs=Scope.READ,
        answers={
            HTTPStatus.OK: Answer("As kube-scheduler takes it.", answer),
            **refused(HTTPStatus.BAD_REQUEST, "Something in the body, or a parameter, is wrong."),
            **REFUSED_BODY,
            **REFUSED_HOST,
        },
    )


ROUTES: tuple[Route, ...] = (
    _verb(
        "filter",
        "For kube-scheduler's extender: the nodes that a pod may go to.",
        ExtenderFilterResult,
        filtered,
        ExtenderArgs,
    ),
    _verb(
        "prioritize",
        "For kube-scheduler's extender: how good each node is for a pod.",
        list[HostPriority],
        prioritized,
        ExtenderArgs,
    ),
    _verb(
        "preempt",
        "For kube-scheduler's extender: the nodes on which it would help a pod if others left.",
        ExtenderPreemptionResult,
        preempted,
        ExtenderPreemptionArgs,
    ),
    get(
        "/watcher",
        "The load of the nodes in the shape of load-watcher, for Trimaran and PEAKS.",
        WatcherMetrics,
        watched,
        query=WatcherQuery,
        refusals=NO_NODE,
    ),
)
