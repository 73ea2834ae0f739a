"""The actions that carry out a decision about an elastic service. Pure."""

from collector.common.orchestrator import ServiceView
from collector.control.verification import same_limit
from collector.features.elastic.placement import ReplicaPlacement
from collector.features.elastic.scaling.interface import ElasticDecision
from collector.policies.actions import Action, Resize, Scale


def service_actions(
    service: ServiceView, decided: ElasticDecision, placement: ReplicaPlacement
) -> tuple[Action, ...]:
    """Return the actions that give a service the decided replicas and CPU limit."""
    actions: list[Action] = []
    limit = decided.cpu_limit_cores
    if limit is not None and not same_limit(limit, service.limit.cpu_cores):
        actions.append(
            Resize(
                service=service.name,
                cpu_limit_cores=limit,
                cpu_limit_cores_before=service.limit.cpu_cores,
                reasons=decided.reasons,
            )
        )
    if decided.replicas != service.replicas:
        actions.append(
            Scale(
                service=service.name,
                replicas=decided.replicas,
                replicas_before=service.replicas,
                nodes=placement.nodes,
                reasons=decided.reasons,
            )
        )
    return tuple(actions)
