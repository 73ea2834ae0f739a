"""Every label `wattpack.*`: where it is set, its values, its default and its meaning.

The table in docs/operations.md is generated from `LABELS`. An invalid value counts as unset.
"""

import re
from dataclasses import dataclass

from wire.messages import PROBE_LABEL

ALLOWED, NEVER = "allowed", "never"
DAEMON = "daemon"
"""A value of `KIND_LABEL`."""

CLASS_LABEL = "wattpack.class"
KIND_LABEL = "wattpack.kind"
MOVE_LABEL = "wattpack.move"
ACT_LABEL = "wattpack.act"
GENERATION_LABEL = "wattpack.generation"
ACCEPT_LABEL = "wattpack.accept"
POWER_LABEL = "wattpack.power"
BEFORE_LABEL = "wattpack.before"
PARKED_LABEL = "wattpack.parked"
COPY_LABEL = "wattpack.copy"
DRAINED_LABEL = "wattpack.drained"
OFF_LABEL = "wattpack.off"
APP_LABEL = "wattpack.app"
DELAY_MAX_LABEL = "wattpack.delay-max"
TALKS_TO_LABEL = "wattpack.talks-to"
OPTIONAL_LABEL = "wattpack.optional"
WEIGHT_LABEL = "wattpack.weight"
STOPPED_LABEL = "wattpack.stopped"
ELASTIC_LABEL = "wattpack.elastic"
ELASTIC_REPLICAS_LABEL = "wattpack.elastic-replicas"
ELASTIC_CPU_LABEL = "wattpack.elastic-cpu"
ELASTIC_EXPLORE_LABEL = "wattpack.elastic-explore"

_COUNT = re.compile("[0-9]{1,6}")
"""The label may contain any text."""


def parse_stopped_replicas(text: str) -> int:
    """Return the number of replicas in `STOPPED_LABEL`; 0 if it is invalid."""
    return int(text) if _COUNT.fullmatch(text) else 0


NO_MOVE_LABEL = f"and no label {MOVE_LABEL}={ALLOWED}"
"""The end of a sentence about a service that needs this label to be moved."""


@dataclass(frozen=True, slots=True)
class Label:
    """One label, for the documentation."""

    name: str
    set_on: str
    values: str
    default: str
    meaning: str


_MOVE_VALUES = f"`{ALLOWED}`, `{NEVER}`"

LABELS = (
    Label(
        CLASS_LABEL,
        "container, service",
        "`1`, `2`, `3`, `4`",
        "`placement.default_class`",
        "SLA class. 1 is never cut; 2, 3 and 4 tolerate a node whose promised resources are up to 1.2, 1.5"
        " and 2 times its capacity.",
    ),
    Label(
        KIND_LABEL,
        "container, service",
        "`service`, `job`, `daemon`",
        "`service`; `daemon` if the orchestrator runs one on every node",
        "A job ends by itself. A daemon runs on every node and does not keep a node from being switched off.",
    ),
    Label(
        APP_LABEL,
        "container, service",
        "a name",
        "the Swarm stack, Compose project or Kubernetes namespace",
        "The application that the service belongs to: services of the same stack, project or namespace that"
        " talk to each other. It is called `NAME@OWNER`, unless the settings name it.",
    ),
    Label(
        DELAY_MAX_LABEL,
        "container, service",
        "a time: `85ms`, `0.085s`, or a number of seconds",
        "no bound",
        "Maximum round-trip time between any two nodes that the application uses. The smallest value of its"
        " services counts.",
    ),
    Label(
        TALKS_TO_LABEL,
        "container, service",
        "names of services of the application, separated by commas",
        "all services of the application talk to each other",
        "The services that this one talks to. If a service of the application has this label, the bound"
        " applies only to the services that these labels connect. In Kubernetes, an annotation of the pod.",
    ),
    Label(
        ELASTIC_LABEL,
        "service",
        "a time: `200ms`, `0.2s`, or a number",
        "not scaled",
        "The service is scaled with its load: bound of the 95th percentile of its response times. A table"
        " `[elastic.NAME]` replaces these labels.",
    ),
    Label(
        ELASTIC_REPLICAS_LABEL,
        "service",
        "`1-10`",
        "`1-10`",
        "Minimum and maximum number of replicas of an elastic service.",
    ),
    Label(
        ELASTIC_CPU_LABEL,
        "service",
        "`0.1-1/0.1`: minimum, maximum and step, in cores",
        "the CPU limit does not change",
        "CPU limits that a replica of an elastic service may have.",
    ),
    Label(
        ELASTIC_EXPLORE_LABEL,
        "service",
        _MOVE_VALUES,
        f"`{ALLOWED}`",
        "Whether the elasticity policy may try sizes whose effect it does not know.",
    ),
    Label(
        PROBE_LABEL,
        "container",
        "a port, or a port and a path: `8080`, `8080/health`",
        "not probed",
        "Agents with `probe.enabled` measure the response time of the container by GET requests. It must be a"
        " label of the container: in Swarm, `--container-label`.",
    ),
    Label(
        MOVE_LABEL,
        "container, service",
        _MOVE_VALUES,
        "allowed where a move loses nothing",
        "Whether the container may be moved to another node.",
    ),
    Label(
        ACT_LABEL,
        "service, node",
        _MOVE_VALUES,
        f"`{ALLOWED}`, unless `control.opt_in` is set",
        f"With `{NEVER}`, Wattpack takes no action on the service; a node keeps its containers, gets no new"
        f" ones and is not switched. With `control.opt_in`, it acts only on services with `{ALLOWED}`.",
    ),
    Label(
        OPTIONAL_LABEL,
        "service; container (Docker)",
        "`true`",
        "unset",
        "The service is optional: it stops while a node or the cluster is short and nothing can move, and"
        " starts again afterwards.",
    ),
    Label(
        WEIGHT_LABEL,
        "service; container (Docker)",
        "a number, 0 or more",
        "`1`",
        "Importance of an optional service: the lightest stops first, and starts again last.",
    ),
    Label(
        STOPPED_LABEL,
        "service, by the Swarm and Kubernetes drivers",
        "the number of replicas before the stop",
        "",
        "The optional service was stopped because resources are short. The collector removes the label when"
        " it starts the service again. In Kubernetes, an annotation of the workload.",
    ),
    Label(
        GENERATION_LABEL,
        "node",
        "`any`, `nursery`, `young`, `old`",
        "`any`",
        "The GenPack generation of containers that the node accepts.",
    ),
    Label(ACCEPT_LABEL, "node", _MOVE_VALUES, f"`{ALLOWED}`", "Whether the node gets new containers."),
    Label(
        POWER_LABEL,
        "node",
        _MOVE_VALUES,
        f"unset; `{NEVER}` for managers and for the collector's own node",
        f"With `{NEVER}`, the node is never switched off. A node whose processes outside containers use more"
        f" than a tenth of its CPU is switched off only with `{ALLOWED}`.",
    ),
    Label(
        BEFORE_LABEL,
        "service, by the Swarm driver",
        "JSON",
        "",
        "The settings of a service before a move that is under way, or before it was parked. Do not change"
        " it: the collector needs it to restore them.",
    ),
    Label(
        PARKED_LABEL,
        "service, by the Swarm driver",
        "the node that the task was stopped on",
        "",
        "A task of the service was stopped for more urgent ones, and waits for its turn. The collector"
        " removes the label when it starts the task.",
    ),
    Label(
        COPY_LABEL,
        "container, by the Docker driver",
        "a random key",
        "",
        "The container is the copy that a move made: by it, an interrupted move is completed or undone.",
    ),
    Label(
        DRAINED_LABEL,
        "node, by the Swarm and Kubernetes drivers",
        "the availability before, or `true`",
        "",
        "The collector drained this node, and will make it available again.",
    ),
    Label(
        OFF_LABEL,
        "node, by the Swarm and Kubernetes drivers",
        "`true`",
        "",
        "The collector switched this node off.",
    ),
)
