"""Descriptions and examples for the OpenAPI document, from the docstrings and names of fields."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import msgspec

Json = dict[str, Any]

_UNITS = {
    "_bytes_per_second": "in bytes per second",
    "_seconds": "in seconds",
    "_bytes": "in bytes",
    "_watts": "in watts",
    "_joules": "in joules",
    "_joules_total": "in joules since the start",
    "_ratio": "as a share from 0 to 1",
    "_cores": "in CPU cores",
    "_at": "as Unix time",
}
_ACRONYMS = {"cpu": "CPU", "slo": "SLO", "id": "id", "iowait": "I/O wait"}


def object_types(kinds: list[Any]) -> Iterator[msgspec.inspect.StructType | msgspec.inspect.DataclassType]:
    """All structs and dataclasses that these types contain, each once."""
    seen: set[Any] = set()
    pending = [msgspec.inspect.type_info(kind) for kind in kinds]
    while pending:
        info = pending.pop()
        if isinstance(info, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
            if info.cls in seen:
                continue
            seen.add(info.cls)
            yield info
            pending += [field.type for field in info.fields]
            continue
        for name in ("types", "item_types"):
            pending += getattr(info, name, ())
        pending += [
            inner for name in ("item_type", "key_type", "value_type") if (inner := getattr(info, name, None))
        ]


def describe_fields(
    kind: msgspec.inspect.StructType | msgspec.inspect.DataclassType,
) -> dict[str, str]:
    """The description of each field, by its name in JSON."""
    texts: dict[str, str] = {}
    for each in reversed(kind.cls.__mro__):
        texts |= _docstrings(each)
    return {
        field.encode_name: texts.get(field.name) or _count(field) or describe_name(field.name)
        for field in kind.fields
    }


def _count(field: msgspec.inspect.Field) -> str | None:
    return COUNTS.get(field.name) if isinstance(field.type, msgspec.inspect.IntType) else None


@cache
def _docstrings(kind: type) -> dict[str, str]:
    try:
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match text:
                case ast.Expr(value=ast.Constant(value=str(doc))):
                    found[field.target.id] = " ".join(inspect.cleandoc(doc).split())
    return found


def describe_name(name: str) -> str:
    """The description in `FIELDS`, or the name in words: "Used memory, in bytes." for `used_memory_bytes`."""
    if name in FIELDS:
        return FIELDS[name]
    unit = ""
    for suffix, text in _UNITS.items():
        if name.endswith(suffix):
            name, unit = name.removesuffix(suffix), f", {text}"
            break
    words = " ".join(_ACRONYMS.get(word, word) for word in re.split("_+", name) if word)
    return f"{words[:1].upper()}{words[1:]}{unit}."


_EXAMPLES: Json = {
    "node": "web1",
    "service": "shop",
    "image": "shop:1.4",
    "id": "4f2a9c0d11e8",
    "slo_class": "silver",
    "policy": "least-watts",
    "at": 1_790_000_000.0,
    "memory_bytes": 536_870_912,
    "cpu_cores": 0.5,
    "by": "service",
}


def example_of(schema: Json, schemas: Json, name: str = "", depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """An example that is valid for a schema; objects have only their required fields."""
    if reference := schema.get("$ref"):
        return example_of(schemas[reference.rpartition("/")[2]], schemas, name, depth + 1)
    if choices := schema.get("anyOf"):
        return example_of(choices[0], schemas, name, depth)
    if values := schema.get("enum"):
        return values[0]
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        return {
            field: example_of(fields[field], schemas, field, depth) for field in schema.get("required", ())
        }
    if kind == "array":
        items = schema.get("prefixItems") or [schema["items"]] * (bool(schema.get("items")) and depth < _DEEP)
        return [example_of(each, schemas, name, depth) for each in items]
    return _simple_example(schema, name)


def _simple_example(schema: Json, name: str) -> Any:  # noqa: ANN401 - JSON
    known = _EXAMPLES["at"] if name.endswith("_at") else _EXAMPLES.get(name)
    match schema.get("type"):
        case "boolean":
            return True
        case "integer" | "number" as kind:
            number = known if isinstance(known, int | float) else 1
            number = min(max(number, schema.get("minimum", number)), schema.get("maximum", number))
            return int(number) if kind == "integer" else float(number)
        case "string":
            return str(known or name or "text")
    return schema.get("default")


_DEEP = 6


# Descriptions of fields that mean the same in every type; the docstring of a field overrides them.
FIELDS: Mapping[str, str] = MappingProxyType(
    {
        # Subjects
        "node": "Name of the node, as its agent reports it.",
        "service": "Service of the container: a Swarm service, Compose `project/service`, or Kubernetes"
        " `namespace/workload`; null if it has none.",
        "container": "Id of the container in its runtime; null if no container is affected.",
        "image": "Name of the image with its tag or digest, as the engine lists it.",
        "runtime": "Runtime of the container: `docker`, `podman`, `containerd`, `cri-o` or `buildkit`.",
        "labels": "Labels by name; those that begin with `wattpack.` affect decisions.",
        "application": "Name of the application.",
        "task_class": "SLA class of the container, 1 to 4: 1 is never cut, 4 tolerates the most.",
        "agent_version": "Version of the agent of the node.",
        # Usage
        "used": "Mean usage of each resource over the last reported window; absent if unknown.",
        "capacity": "Capacity of the node for each resource; absent if unknown.",
        "limit": "Limit of each resource: CPU quota, cpuset, memory limit; absent without a limit.",
        "used_ratio": "Usage as a share of the capacity, 0-1.",
        "pressure": "Share of time in which tasks waited for each resource (PSI); absent if unknown.",
        "cpu_cores": "CPU, in cores: 0.5 is half a core.",
        "memory_bytes": "Memory, in bytes, without reclaimable page cache.",
        "disk_bytes_per_second": "Disk throughput, reads and writes together, in bytes per second.",
        "network_bytes_per_second": "Network traffic, both directions together, in bytes per second.",
        "cpu_ratio": "CPU, as a share from 0 to 1.",
        "memory_ratio": "Memory, as a share from 0 to 1.",
        "disk_ratio": "Disk, as a share from 0 to 1.",
        "network_ratio": "Network, as a share from 0 to 1.",
        "cpu_seconds_total": "CPU time of the container since its start, in seconds.",
        "cpu_throttled_seconds_total": "Time since its start in which its CPU quota stopped the container.",
        "oom_kills_total": "Processes that the kernel killed because memory ran out, since the start.",
        "restarts": "Restarts of the container since its agent first listed it.",
        "load_1m": "Load average of the last minute.",
        "frequency_hertz": "Mean clock rate of the cores.",
        "iowait_ratio": "Share of CPU time spent waiting for disks.",
        "steal_ratio": "Share of CPU time that the hypervisor gave to other guests.",
        "swap_used_bytes": "Used swap space, in bytes.",
        "disk_busy_ratio": "Share of time in which the busiest disk was active.",
        "sample_seconds": "Time between two samples of the agent, in seconds.",
        "window_seconds": "Length of the window over which the values are averaged, in seconds.",
        "gaps": "Values that the agent cannot measure on this node, with the reason.",
        # Power
        "power": "Watts and energy, with their source and expected error; null if unknown.",
        "watts": "Power at the wall, in watts; in a virtual machine, its share of the host.",
        "idle_watts": "Power without any load, in watts.",
        "system_watts": "Power of processes outside containers, in watts.",
        "error_ratio": "Expected relative error of the watts: 0.25 means plus or minus 25%.",
        "joules_total": "Energy counter, in joules; it never decreases.",
        "source": "Where the watts come from: `rapl`, `hwmon` or `ipmi` are meters, `model` is fitted to the"
        " machine, `prior` is estimated from its hardware.",
        "scope": "The part of the machine that the watts cover: the whole machine, at the wall.",
        "power_curve": "Power of the node at other loads, as points.",
        "watts_before": "Estimated power of the cluster before the plan, in watts.",
        "watts_after": "Estimated power of the cluster after the plan, in watts.",
        "before_watts": "Estimated power of the node now, in watts.",
        "after_watts": "Estimated power of the node with the change, in watts.",
        "mean_watts": "Mean power in the step, in watts.",
        "max_watts": "Highest power in the step, in watts.",
        # Times
        "at": "Unix time of this state, event or decision.",
        "started_at": "Unix time of the start, in seconds; null if it has not started or is unknown.",
        "opened_at": "Unix time at which the alert opened, by the clock of its node.",
        "closed_at": "Unix time at which the alert closed; null while it is open.",
        "done_at": "Unix time at which the driver reported the step as done; null before.",
        "ended_at": "Unix time of the end; null before.",
        "since": "Unix time of the beginning, in seconds.",
        "start": "Start of the period, as Unix time.",
        "end": "End of the period (exclusive), as Unix time.",
        "lifetime_seconds": "Time from start to end of the container, in seconds.",
        "startup_seconds": "Time from the creation of a container to its start, in seconds.",
        "exit_code": "Exit status of the container; null if it is unknown or still runs.",
        # Alerts and analysis
        "resource": "The resource: `cpu`, `memory`, `disk` or `network`.",
        "evidence": "The measurements, as a sentence.",
        "ratio": "Usage of the resource as a share of the capacity, 0-1.",
        "pressure_ratio": "Share of time in which tasks waited for the resource, 0-1; null if unknown.",
        "envelope": "The usage that a container is expected to need: a high percentile for each resource.",
        "dominant": "The resource that is likely to run short first.",
        "shares": "Share of the cluster's capacity that one container needs, per resource.",
        "explanation": "How the result was computed, as a sentence.",
        # Decisions
        "policy": "Name of the policy; `GET /v1/policies` lists all.",
        "driver": "The driver that carries out actions: `none` only records them.",
        "reason": "The reason, as a sentence.",
        "reasons": "The reasons, as sentences, the most important first.",
        "why": "The reason, as a sentence.",
        "trigger": "Cause of the decision: `alert`, `timer`, `request`, or `waiting` for waiting containers.",
        "outcome": "Result of the decision: `done`, `partly`, `refused`, `failed`; `dry` if only recorded.",
        "actions": "The actions of the plan, in order.",
        "steps": "The actions of the decision with their results, in order.",
        "action": "The action of the step.",
        "decisions": "The decisions, the latest first.",
        "settings": "Settings of the policy that were used.",
        "reservation": "The reserved node; null if no reservation was requested.",
        "avoid": "Services that it must not share a node with.",
        "exclude": "Nodes that it must not run on.",
        "talks_to": "Services of its application that it talks to.",
        "constraints": "Constraints on the node, in the syntax of the orchestrator.",
        "reserve": "Resources to reserve for the container: its requests or limits.",
        "demand": "Expected usage of each resource.",
        "replicas": "Number of containers of the service.",
        "points": "The values, in order of time or load.",
        "events": "The events, the latest first.",
        "error": "Why the request failed; empty if it did not.",
        # Mesh
        "session": "Random number of the agent's run; each start has another one.",
        "peer": "Name of the other node.",
        "answered": "Number of probes with a response.",
        "lost": "Number of probes without a response.",
        # Kubernetes
        "metadata": "Metadata of the object, as in the Kubernetes API.",
        "uid": "UID of the object.",
        "pod": "The pod to schedule, as in the Kubernetes API.",
        "pods": "Pods that would be preempted, as in the Kubernetes API or by UID.",
        "num_pdb_violations": "Number of pod disruption budgets that the preemption violates.",
        "node_names": "Names of the nodes, if kube-scheduler sends names only.",
        "failed_nodes": "Nodes that do not fit now, with the reason.",
        "node_name_to_victims": "Pods that would be preempted, by node.",
        "node_name_to_meta_victims": "UIDs of the pods that would be preempted, by node.",
        "host": "Name of the node.",
        "metrics": "Metrics of the node.",
        "node_metrics_map": "Metrics by node.",
        "operator": "How `value` is aggregated over the window: `AVG`, `STD` or `Latest`.",
        "rollup": "Length of the window, such as `15m`.",
    }
)
COUNTS: Mapping[str, str] = MappingProxyType(
    {name: f"Number of {name}." for name in ("nodes", "containers", "services")}
)
"""Fields that are a number in some types, and a list in others."""
