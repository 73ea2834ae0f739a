"""Requests of kube-scheduler to an extender, and the responses.

The extender's own types are Go structs without JSON names, so their keys are capitalised; pods and nodes are
ordinary Kubernetes objects. Nodes are returned unchanged. Go writes an empty map, list or pointer as null.
"""

from typing import Any

import msgspec

from collector.features.kubernetes.models import KubernetesObject


class _ExtenderStruct(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """A struct of the extender protocol."""


class NodeList(KubernetesObject, frozen=True, kw_only=True):
    """Complete nodes, which are returned unchanged."""

    metadata: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    items: list[msgspec.Raw] | None = None
    """The nodes."""


class ExtenderArgs(_ExtenderStruct, frozen=True, kw_only=True):
    """A pod and its candidate nodes: complete, or only their names if the extender caches nodes."""

    pod: dict[str, Any] | None
    nodes: NodeList | None = None
    """Candidate nodes, if kube-scheduler sends complete nodes."""
    node_names: list[str] | None = None


class ExtenderFilterResult(_ExtenderStruct, frozen=True, kw_only=True):
    """Nodes that fit, in the form of the request; and the other nodes, each with a reason."""

    nodes: NodeList | None = None
    """Nodes that fit, if the request contains complete nodes."""
    node_names: list[str] | None = None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    """Nodes where preemption would not help."""
    error: str = ""


class HostPriority(_ExtenderStruct, frozen=True, kw_only=True):
    """Score of a node, from 0 to 10."""

    host: str
    score: int
    """0 is the worst, 10 the best."""


class Victims(_ExtenderStruct, frozen=True, kw_only=True):
    """Pods that would be preempted."""

    pods: list[dict[str, Any]] | None = None
    num_pdb_violations: int | None = msgspec.field(default=0, name="NumPDBViolations")


class MetaPod(_ExtenderStruct, frozen=True, kw_only=True):
    """A pod by its UID."""

    uid: str = msgspec.field(name="UID")


class MetaVictims(_ExtenderStruct, frozen=True, kw_only=True):
    """Pods that would be preempted, by UID."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int | None = msgspec.field(default=0, name="NumPDBViolations")


class ExtenderPreemptionArgs(_ExtenderStruct, frozen=True, kw_only=True):
    """A pod that fits on no node, and the victims on each node."""

    pod: dict[str, Any] | None
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(_ExtenderStruct, frozen=True, kw_only=True):
    """Nodes where preemption helps."""

    node_name_to_meta_victims: dict[str, MetaVictims]
