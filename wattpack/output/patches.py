"""Recommended sizes as text to paste: a Compose file, Swarm commands, or Kubernetes commands."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from shlex import quote
from typing import Any

import yaml

from wire.text import printable

Size = Mapping[str, Any]
"""The size of a service as the API has it; an absent request or limit is left as it is."""
_MEBIBYTE = 1 << 20
_LEAST_MEBIBYTES = 6
"""Docker refuses lower memory limits."""


def compose_patch(sizes: Sequence[Size]) -> Iterator[str]:
    """An override file per project: services are named PROJECT/SERVICE."""
    projects: defaultdict[str, dict[str, object]] = defaultdict(dict)
    for each in sizes:
        project, _, name = each["service"].rpartition("/")
        resources = {
            "reservations": _docker_sizes(each, "request", "cpus", "memory"),
            "limits": _docker_sizes(each, "limit", "cpus", "memory"),
        }
        known = {kind: amounts for kind, amounts in resources.items() if amounts}
        projects[project][name] = {"deploy": {"resources": known}}
    for project, services in sorted(projects.items()):
        file = "compose.override.yaml"
        yield f"# Project {printable(project)}: save as {file}" if project else f"# {file}"
        yield yaml.safe_dump({"services": services}, sort_keys=False).rstrip()


def swarm_patch(sizes: Sequence[Size]) -> Iterator[str]:
    """A `docker service update` per service."""
    for each in sizes:
        options = _docker_sizes(each, "request", "--reserve-cpu", "--reserve-memory")
        options |= _docker_sizes(each, "limit", "--limit-cpu", "--limit-memory")
        given = (f"{option} {amount}" for option, amount in options.items())
        yield " ".join(("docker service update", *given, quote(each["service"])))


def kubernetes_patch(sizes: Sequence[Size]) -> Iterator[str]:
    """A `kubectl set resources` per workload: services are named NAMESPACE/WORKLOAD."""
    for each in sizes:
        namespace, _, workload = each["service"].rpartition("/")
        where = [f"--namespace {quote(namespace)}"] if namespace else []
        # The kind is not known, and a Deployment is the most frequent one.
        words = ["kubectl", *where, "set resources", quote(f"deployment/{workload}")]
        for kind in ("request", "limit"):
            cpu, memory = _amounts(each, kind)
            parts = [] if cpu is None else [f"cpu={_thousandths(cpu)}m"]
            parts += [] if memory is None else [f"memory={_mebibytes(memory)}Mi"]
            words += [f"--{kind}s={','.join(parts)}"] if parts else []
        yield " ".join(words)


def _docker_sizes(size: Size, kind: str, cpu_name: str, memory_name: str) -> dict[str, str]:
    cpu, memory = _amounts(size, kind)
    found = {} if cpu is None else {cpu_name: f"{_thousandths(cpu) / 1000:g}"}
    return found if memory is None else {**found, memory_name: f"{_mebibytes(memory)}M"}


def _amounts(size: Size, kind: str) -> tuple[float | None, float | None]:
    """The request or the limit of CPU and memory."""
    return (size["cpu"] or {}).get(kind), (size["memory"] or {}).get(kind)


def _thousandths(cores: float) -> int:
    return max(1, ceil(cores * 1000))


def _mebibytes(memory_bytes: float) -> int:
    return max(_LEAST_MEBIBYTES, ceil(memory_bytes / _MEBIBYTE))


PATCHES: Mapping[str, Callable[[Sequence[Size]], Iterator[str]]] = {
    "compose": compose_patch,
    "swarm": swarm_patch,
    "kubernetes": kubernetes_patch,
}
