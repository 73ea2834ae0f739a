"""Fields that mean the same in every type of the API, for the OpenAPI document.

A docstring of a field comes first: it is for what is special there.
"""

from collections.abc import Mapping
from types import MappingProxyType

FIELDS: Mapping[str, str] = MappingProxyType(
    {
        # What it is about
        "node": "Name of the node, as its agent reports it.",
        "service": "Service of the container: a Swarm service, Compose `project/service`, or Kubernetes"
        " `namespace/workload`; null if it has none.",
        "container": "Id of the container in its runtime; null if it is not about a container.",
        "image": "Name of the image with its tag or digest, as the engine lists it.",
        "runtime": "Runtime of the container: `docker`, `podman`, `containerd`, `cri-o` or `buildkit`.",
        "labels": "Labels by name; those that begin with `wattpack.` affect decisions.",
        "task_class": "SLA class of the container, 1 to 4: 1 is never cut, 4 tolerates the most.",
        "agent_version": "Version of the agent of the node.",
        # Usage
        "used": "Mean use of each resource over the last reported window; absent if unknown.",
        "capacity": "What the node has of each resource.",
        "limit": "Limit of each resource: CPU quota, cpuset, memory limit; absent without a limit.",
        "used_ratio": "Use as a share of the capacity, 0-1.",
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
        "gaps": "What the agent cannot measure on this node, with the reason.",
        # Power
        "power": "Watts and energy, with their source and expected error; null if unknown.",
        "watts": "Power at the wall, in watts; in a virtual machine, its share of the host.",
        "idle_watts": "Power without any load, in watts.",
        "system_watts": "Power of processes outside containers, in watts.",
        "error_ratio": "Expected relative error of the watts: 0.25 means plus or minus 25 %.",
        "joules_total": "Energy counter, in joules; it never decreases.",
        "source": "Where the watts come from: `rapl`, `hwmon` or `ipmi` are meters, `model` is fitted to the"
        " machine, `prior` is estimated from its hardware.",
        "scope": "What the watts cover: the whole machine at the wall.",
        "power_curve": "Power of the node at other loads, as points.",
        "watts_before": "Estimated power of the cluster before the plan, in watts.",
        "watts_after": "Estimated power of the cluster after the plan, in watts.",
        "before_watts": "Estimated power of the node now, in watts.",
        "after_watts": "Estimated power of the node with the change, in watts.",
        "mean_watts": "Mean power in the step, in watts.",
        "max_watts": "Highest power in the step, in watts.",
        # Times
        "at": "Time of this state, event or decision, as Unix time.",
        "started_at": "Unix time of the start, in seconds; null if it has not started or is unknown.",
        "opened_at": "Unix time at which the alert opened, by the clock of its node.",
        "closed_at": "Unix time at which the alert closed; null while it is open.",
        "done_at": "Unix time at which the driver reported it as done; null before.",
        "ended_at": "Unix time of the end; null before.",
        "since": "Unix time of the beginning, in seconds.",
        "start": "Start of the period, as Unix time.",
        "end": "End of the period (exclusive), as Unix time.",
        "lifetime_seconds": "Time from start to end of the container, in seconds.",
        "startup_seconds": "Time from the creation of a container to its start, in seconds.",
        "exit_code": "Exit status of the container; null if it is unknown or still runs.",
        # Alerts and analysis
        "alerts": "Alerts in the requested order.",
        "resource": "Resource that it is about: `cpu`, `memory`, `disk` or `network`.",
        "evidence": "The measurements, as a sentence.",
        "ratio": "Use of the resource as a share of the capacity, 0-1.",
        "pressure_ratio": "Share of time in which tasks waited for the resource, 0-1; null if unknown.",
        "envelope": "What a container is expected to need: a high percentile of its use of each resource.",
        "dominant": "The resource that is likely to run short first.",
        "shares": "Share of the cluster's capacity that one container needs, per resource.",
        "explanation": "How the result came about, as a sentence.",
        # Decisions
        "policy": "Name of the policy; `GET /v1/policies` lists all.",
        "driver": "The driver that carries out actions: `none` only records them.",
        "reason": "Why, as a sentence.",
        "reasons": "Why, as sentences, the most important first.",
        "why": "Why, as a sentence.",
        "trigger": "What caused it: an `alert`, the `timer`, a `request`, or a container that is `waiting`.",
        "outcome": "How it ended: `done`, `partly`, `refused`, `failed`; `dry` if it was only recorded.",
        "actions": "What to do, in this order.",
        "steps": "The actions of the decision and how each ended, in order.",
        "action": "What the step does.",
        "decisions": "The decisions, the latest first.",
        "settings": "Settings of the policy that were used.",
        "reservation": "Room that is kept for the container; null if none was asked for.",
        "constraints": "Constraints on the node, in the syntax of the orchestrator.",
        "reserve": "Resources that the container is promised.",
        "demand": "Expected use of each resource.",
        "replicas": "Number of containers of the service.",
        "points": "The values, in order of time or load.",
        "events": "The events, the latest first.",
        "error": "Why the request failed; empty if it did not.",
    }
)
COUNTS: Mapping[str, str] = MappingProxyType(
    {name: f"Number of {name}." for name in ("nodes", "containers", "services", "instances", "reservations")}
)
"""Fields that are a number in some types, and a list in others."""
