"""Nodes, containers and alerts of a registry, as the API lists them."""

from collector.common.reported_alerts import AlertState
from collector.observe.registry import Registry
from collector.serve.api.alerts import ClusterAlert, describe_node_alert
from collector.serve.api.containers import Container, describe_container
from collector.serve.api.nodes import Node, describe_node


def list_nodes(registry: Registry, now: float) -> list[Node]:
    """Nodes by name."""
    return [describe_node(registry, entry, now) for entry in registry.nodes(now)]


def list_containers(
    registry: Registry, now: float, *, node: str | None = None, name: str | None = None
) -> list[Container]:
    """Containers by name, then by node and id."""
    found = [
        describe_container(registry.tables, entry, each)
        for entry in registry.nodes(now, node=node)
        for each, reported in entry.run.containers.items()
        if name in (None, reported.value.name)
    ]
    return sorted(found, key=lambda each: (each.name, each.node, each.id))


def list_alerts(registry: Registry, now: float, *, state: AlertState | None = None) -> list[ClusterAlert]:
    """Open alerts first, then the latest first."""
    found = [describe_node_alert(each) for each in registry.alerts(now, state=state)]
    return sorted(
        found,
        key=lambda each: (each.state is AlertState.CLOSED, -each.opened_at, each.subject, str(each.resource)),
    )
