"""Containers of Docker hosts as the common state of an orchestrator. Pure."""

from collections.abc import Collection, Iterator, Sequence

from collector.common.labels import ALLOWED, MOVE_LABEL, NEVER, NO_MOVE_LABEL
from collector.common.orchestrator import Mode, ServiceView, TaskView
from collector.drivers.engine.limits import limit_of
from collector.drivers.engine.models import DockerContainer
from collector.features.docker.allow_list import refusals


def service_names(containers: Sequence[tuple[str, DockerContainer]]) -> list[str]:
    """Return a unique name for each container of some hosts.

    That is its own name, or `NAME@HOST` if several hosts have one: labels of one must not apply to the other.
    """
    hosts: dict[str, set[str]] = {}
    for host, container in containers:
        hosts.setdefault(container.plain_name, set()).add(host)
    return [
        f"{name}@{host}" if len(hosts[name]) > 1 or "@" in name else name
        for host, name in ((host, container.plain_name) for host, container in containers)
    ]


def service_view(
    container: DockerContainer, grants: Collection[str] = (), name: str | None = None
) -> ServiceView:
    """Return a single container as a service; `grants` are those of any host that it could move to."""
    return ServiceView(
        name=container.plain_name if name is None else name,
        mode=Mode.STANDALONE,
        limit=limit_of(container.host_config),
        image=str(container.config.get("Image", "")),
        labels=container.labels,
        stays=next(_reasons_to_stay(container, grants), None),
    )


def task_view(container: DockerContainer, node: str, service: str) -> TaskView:
    """Return a container as the task of its service."""
    return TaskView(container=container.id, service=service, node=node, state=container.state.status)


def _reasons_to_stay(container: DockerContainer, grants: Collection[str]) -> Iterator[str]:
    """Return why a container must not move, the strongest reason first."""
    label = container.labels.get(MOVE_LABEL)
    network = str(container.host_config.get("NetworkMode", ""))
    if label == NEVER:
        yield f"its label {MOVE_LABEL} is {NEVER}"
    if container.is_swarm_task:
        yield "a Swarm manages it"
    for mount in container.mounts:
        if mount.get("Type") != "tmpfs":
            yield f"it has data on this host, in {mount.get('Name') or mount.get('Source')}"
    if network.startswith("container:"):
        yield "it shares the network of another container"
    yield from refusals(container.host_config, grants)
    if container.host_config.get("AutoRemove"):
        yield "it is removed when it stops, so that the move could not be undone"
    if label != ALLOWED:
        yield f"it has one replica {NO_MOVE_LABEL}"
