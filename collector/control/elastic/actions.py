"""The actions that make a service as decided. Pure."""

from collector.control.elastic.placing import ReplicaPlaces
from collector.control.verification import same_limit
from collector.drivers.interface import ServiceView
from collector.elastic.interface import ElasticDecision
from collector.policies.actions import Action, Resize, Scale


def service_actions(
    service: ServiceView, decided: ElasticDecision, spots: ReplicaPlaces
) -> tuple[Action, ...]:
    """Return what makes a service as decided."""
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
                nodes=spots.nodes,
                reasons=decided.reasons,
            )
        )
    return tuple(actions)
