"""Recommended sizes as text to paste: a Compose file, Swarm commands, or Kubernetes commands."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from shlex import quote

import yaml

from wire.text import printable

_MEBIBYTE = 1 << 20
_LEAST_MEBIBYTES = 6
"""Docker refuses lower memory limits."""


@dataclass(frozen=True, slots=True)
class ContainerSize:
    """The requests and limits of the containers of a service; None is left as it is."""

    service: str
    cpu_request: float | None
    cpu_limit: float | None
    memory_request: float | None
    memory_limit: float | None


def compose_patch(sizes: Sequence[ContainerSize]) -> Iterator[str]:
    """An override file per project: services are named PROJECT/SERVICE."""
    projects: defaultdict[str, list[ContainerSize]] = defaultdict(list)
    for each in sizes:
        projects[each.service.rpartition("/")[0]].append(each)
    for project, members in sorted(projects.items()):
        yield (
            f"# Project {printable(project)}: save as compose.override.yaml"
            if project
            else "# compose.override.yaml"
        )
        services = {each.service.rpartition("/")[2]: _compose_service(each) for each in members}
        yield yaml.safe_dump({"services": services}, sort_keys=False).rstrip()


def _compose_service(size: ContainerSize) -> Mapping[str, object]:
    resources = {
        kind: parts
        for kind, cpu, memory in (
            ("reservations", size.cpu_request, size.memory_request),
            ("limits", size.cpu_limit, size.memory_limit),
        )
        if (parts := _compose_parts(cpu, memory))
    }
    return {"deploy": {"resources": resources}}


def _compose_parts(cpu: float | None, memory: float | None) -> dict[str, str]:
    parts = {} if cpu is None else {"cpus": _cores(cpu)}
    return parts if memory is None else {**parts, "memory": f"{_mebibytes(memory)}M"}


def swarm_patch(sizes: Sequence[ContainerSize]) -> Iterator[str]:
    """A `docker service update` per service."""
    for each in sizes:
        options = [
            f"{option} {text}"
            for option, text in (
                ("--reserve-cpu", None if each.cpu_request is None else _cores(each.cpu_request)),
                ("--limit-cpu", None if each.cpu_limit is None else _cores(each.cpu_limit)),
                ("--reserve-memory", _docker_memory(each.memory_request)),
                ("--limit-memory", _docker_memory(each.memory_limit)),
            )
            if text is not None
        ]
        yield " ".join(("docker service update", *options, quote(each.service)))


def kubernetes_patch(sizes: Sequence[ContainerSize]) -> Iterator[str]:
    """A `kubectl set resources` per workload: services are named NAMESPACE/WORKLOAD."""
    for each in sizes:
        namespace, _, workload = each.service.rpartition("/")
        requests = _kubernetes_parts(each.cpu_request, each.memory_request)
        limits = _kubernetes_parts(each.cpu_limit, each.memory_limit)
        where = f"--namespace {quote(namespace)} " if namespace else ""
        parts = [f"--requests={requests}" if requests else "", f"--limits={limits}" if limits else ""]
        # The kind is not known, and a Deployment is the most frequent one.
        target = quote(f"deployment/{workload}")
        yield f"kubectl {where}set resources {target} {' '.join(filter(None, parts))}"


def _kubernetes_parts(cpu: float | None, memory: float | None) -> str:
    parts = [] if cpu is None else [f"cpu={max(1, ceil(cpu * 1000))}m"]
    return ",".join(parts if memory is None else [*parts, f"memory={_mebibytes(memory)}Mi"])


def _cores(cores: float) -> str:
    """Rounded up to a thousandth."""
    return f"{max(1, ceil(cores * 1000)) / 1000:g}"


def _mebibytes(memory_bytes: float) -> int:
    return max(_LEAST_MEBIBYTES, ceil(memory_bytes / _MEBIBYTE))


def _docker_memory(memory_bytes: float | None) -> str | None:
    return None if memory_bytes is None else f"{_mebibytes(memory_bytes)}M"


PATCHES: Mapping[str, Callable[[Sequence[ContainerSize]], Iterator[str]]] = {
    "compose": compose_patch,
    "swarm": swarm_patch,
    "kubernetes": kubernetes_patch,
}
