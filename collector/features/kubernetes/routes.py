"""Routes for Kubernetes. The verb ends the path, as kube-scheduler expects."""

import inspect
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from collector.common.errors import ApiError, LimitError
from collector.decide.policies.interface import Ranking, Request
from collector.decide.policies.table import POLICIES
from collector.decide.question import complete_labels, resolve_policy
from collector.decide.ranking import rank
from collector.features.kubernetes.extender.models import (
    ExtenderArgs,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    NodeList,
)
from collector.features.kubernetes.extender.pods import is_essential, parse_pod, pod_request
from collector.features.kubernetes.extender.scheduling import keep_only, score_nodes, split_nodes
from collector.features.kubernetes.extender.watcher import WatcherMetrics, watcher_metrics
from collector.features.kubernetes.models import KubePod
from collector.runtime.parts import Core
from collector.runtime.placing import warm_up_with
from collector.serve.api.control import Api
from collector.serve.api.nodes import no_such_node
from collector.serve.web.bodies import parse_body
from collector.serve.web.routes import NO_NODE, ResponseSpec, Route, get, post, problem
from collector.serve.web.scopes import Scope
from collector.snapshot.tables import Snapshot
from wire.errors import UserError

log = logging.getLogger(__name__)


class _NodeName(msgspec.Struct):
    name: str


class _NodeMetadata(msgspec.Struct):
    metadata: _NodeName


_node_decoder = msgspec.json.Decoder(_NodeMetadata)


class ExtenderQuery(msgspec.Struct, frozen=True):
    """Parameters of a verb, as in `filterVerb: filter?policy=draps`."""

    policy: Annotated[str | None, Meta(description="Policy to use instead of the configured one.")] = None


class WatcherQuery(msgspec.Struct, frozen=True):
    """Parameters of load-watcher."""

    host: Annotated[str | None, Meta(description="Only the node with this name.")] = None


async def _rank(core: Core, pod: KubePod, policy_name: str | None) -> tuple[Snapshot, Request, Ranking]:
    chosen = resolve_policy(core.config, policy_name, {}, "place")
    # A new request for the same pod replaces the reservation of the earlier one.
    core.reservations.release(_reservation_name(pod))
    if pod.status.nominated_node_name is not None:
        core.reservations.preempt(_reservation_name(pod), pod.status.nominated_node_name)
    snapshot = await core.snapshot()
    try:
        request = pod_request(pod, snapshot, core.config.placement.default_class)
    except UserError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, str(error), "$.Pod") from error
    left = core.reservations.left_by((pod.workload, pod.name), core.clock())
    warm_up_with(core, request, chosen)
    ranking = rank(snapshot, request, chosen, left, admission=core.admission)
    return snapshot, request, ranking


def _reservation_name(pod: KubePod) -> str:
    return f"pod/{pod.metadata.uid or pod.name}"


async def filter_nodes(core: Core, args: ExtenderArgs, query: ExtenderQuery) -> ExtenderFilterResult:
    """Filter nodes for a pod (kube-scheduler extender)."""
    pod, items = _pod(args.pod), _candidates(args)
    snapshot, _, ranking = await _rank(core, pod, query.policy)
    kept = core.reservations.kept_on(pod.metadata.uid, core.clock())
    if is_essential(pod):
        found = ExtenderFilterResult(
            node_names=list(items), failed_nodes={}, failed_and_unresolvable_nodes={}
        )
    elif kept is not None:
        found = keep_only(kept, items)
    else:
        found = split_nodes(snapshot, ranking, items, pod.status.nominated_node_name)
    passed = found.node_names or []
    log.debug("pod %s fits on %d of %d nodes", pod.name, len(passed), len(items))
    if args.nodes is None:
        return found
    nodes = NodeList(metadata=args.nodes.metadata, items=[items[each] for each in passed])
    return msgspec.structs.replace(found, nodes=nodes, node_names=None)


async def prioritize_nodes(core: Core, args: ExtenderArgs, query: ExtenderQuery) -> list[HostPriority]:
    """Score nodes for a pod, and reserve the best one until it starts (kube-scheduler extender)."""
    pod, names = _pod(args.pod), list(_candidates(args))
    snapshot, request, ranking = await _rank(core, pod, query.policy)
    if pod.is_bound:
        return [HostPriority(host=name, score=0) for name in names]
    kept = core.reservations.kept_on(pod.metadata.uid, core.clock())
    scores = score_nodes(snapshot, ranking, names, kept or pod.status.nominated_node_name)
    seconds = 0.0 if kept is not None else core.config.placement.scheduled_seconds
    if seconds and max(scores, default=0) > 0:
        best = names[scores.index(max(scores))]
        request = replace(request, service=pod.workload)
        try:
            core.reservations.place(
                snapshot, request, best, now=core.clock(), seconds=seconds, name=_reservation_name(pod)
            )
        except LimitError as error:
            log.warning("no reservation for pod %s on node %s: %s", pod.name, best, error)
    unknown = [name for name in names if name not in snapshot.nodes.index]
    if unknown:
        log.info("nodes without an agent get score 0: %d, such as %s", len(unknown), unknown[0])
    return [HostPriority(host=name, score=score) for name, score in zip(names, scores, strict=True)]


async def check_preemption(
    core: Core, args: ExtenderPreemptionArgs, query: ExtenderQuery
) -> ExtenderPreemptionResult:
    """Choose the nodes where preemption helps a pod and breaks no promise (kube-scheduler extender)."""
    pod, by_id = _pod(args.pod), dict(args.node_name_to_meta_victims or {})
    for name, victims in (args.node_name_to_victims or {}).items():
        pods = [MetaPod(uid=_pod(each).metadata.uid) for each in victims.pods or ()]
        by_id[name] = MetaVictims(pods=pods, num_pdb_violations=victims.num_pdb_violations)
    kept = core.reservations.kept_on(pod.metadata.uid, core.clock())
    if kept is not None:
        # A decision makes room on that node; kube-scheduler must not make room elsewhere.
        return ExtenderPreemptionResult(
            node_name_to_meta_victims={name: victims for name, victims in by_id.items() if name == kept}
        )
    snapshot, request, ranking = await _rank(core, pod, query.policy)
    unresolvable = split_nodes(snapshot, ranking, by_id).failed_and_unresolvable_nodes
    helps = {name: victims for name, victims in by_id.items() if name not in unresolvable}
    if not is_essential(pod):
        chosen = await _least_urgent(core, pod, request, helps)
        helps = {name: victims for name, victims in helps.items() if name in chosen}
    core.reservations.plan_preemption(
        _reservation_name(pod),
        {
            name: frozenset(f"pod/{each.uid}" for each in victims.pods or ())
            for name, victims in helps.items()
        },
    )
    return ExtenderPreemptionResult(node_name_to_meta_victims=helps)


async def _least_urgent(
    core: Core, pod: KubePod, request: Request, victims: Mapping[str, MetaVictims]
) -> frozenset[str]:
    """Return the nodes whose victims can wait longest, without nodes where one of them cannot wait."""
    policy = next((each for each in POLICIES.values() if each.preempt is not None), None)
    if policy is None or policy.preempt is None:
        return frozenset(victims)
    assert isinstance(core, Api), "this route needs the orchestrator's state"
    situation = core.control.actor.situation
    containers: defaultdict[str, list[str]] = defaultdict(list)
    for task in situation.view.tasks:
        containers[task.id].append(task.container)
    by_node = {
        name: [each for victim in there.pods or () for each in containers.get(victim.uid, ())]
        for name, there in victims.items()
    }
    settings = resolve_policy(core.config, policy.name, {}, "rebalance").settings
    request = replace(request, labels=complete_labels(pod.metadata.labels, core.config))
    return policy.preempt(await situation.snapshot(), pod.metadata.uid, request, by_node, settings)


def _pod(described: Mapping[str, Any] | None) -> KubePod:
    return parse_body(b"", lambda _: parse_pod(described))


def _candidates(args: ExtenderArgs) -> Mapping[str, msgspec.Raw]:
    """The candidate nodes by name, each as it is in the request."""
    if args.nodes is None:
        return dict.fromkeys(args.node_names or (), msgspec.Raw())
    nodes = args.nodes.items or ()
    return {parse_body(bytes(item), _node_decoder.decode).metadata.name: item for item in nodes}


async def node_load(core: Core, query: WatcherQuery) -> WatcherMetrics:
    """Get the load of nodes in the format of load-watcher, for Trimaran and PEAKS."""
    snapshot = await core.snapshot()
    if query.host is not None and query.host not in snapshot.nodes.index:
        raise no_such_node(query.host, "host")
    return watcher_metrics(snapshot, query.host)


def _verb(verb: str, handler: Callable[[Core, Any, ExtenderQuery], Awaitable[Any]]) -> Route:
    """A route of the protocol."""
    response = inspect.signature(handler).return_annotation
    return post(
        f"/v1/kubernetes/{verb}",
        handler,
        query=ExtenderQuery,
        responds=ResponseSpec("A response of the extender protocol.", response),
        problems=problem(HTTPStatus.BAD_REQUEST, "The body or a parameter is invalid."),
        scope=Scope.PLACE,
    )


ROUTES: tuple[Route, ...] = (
    _verb("filter", filter_nodes),
    _verb("prioritize", prioritize_nodes),
    _verb("preempt", check_preemption),
    get("/watcher", node_load, problems=NO_NODE),
)
