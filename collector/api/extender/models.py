"""What kube-scheduler sends an extender, and what it takes for an answer.

The extender's own types are Go structs without names for JSON, so their keys are capitalised; pods and nodes
are as everywhere in Kubernetes. Only what is looked at is named; nodes are handed back as they came.
"""

import msgspec


class _Go(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """A struct of the extender's own."""


class _Kube(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object of Kubernetes' API. Go writes an empty list or map as null."""


class OwnerReference(_Kube, frozen=True, kw_only=True):
    """What keeps a pod."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


class ObjectMeta(_Kube, frozen=True, kw_only=True):
    """Who an object is."""

    name: str = ""
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class ResourceRequirements(_Kube, frozen=True, kw_only=True):
    """What a container asks for."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class PodContainer(_Kube, frozen=True, kw_only=True):
    """One container of a pod."""

    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None


class PodSpec(_Kube, frozen=True, kw_only=True):
    """What a pod is to run."""

    containers: list[PodContainer] | None = None
    init_containers: list[PodContainer] | None = None
    overhead: dict[str, str] | None = None


class SchedulerPod(_Kube, frozen=True, kw_only=True):
    """What wants a place."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class NodeList(_Kube, frozen=True, kw_only=True):
    """Nodes, as they came."""

    metadata: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    items: list[msgspec.Raw] | None = None


class Named(_Kube, frozen=True, kw_only=True):
    """All that is read of a node."""

    metadata: ObjectMeta = ObjectMeta()


class ExtenderArgs(_Go, frozen=True, kw_only=True):
    """A pod, and the nodes that are left for it: all of each, or their names if the extender knows them."""

    pod: SchedulerPod
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class ExtenderFilterResult(_Go, frozen=True, kw_only=True):
    """The nodes that the pod may go to, in the way that they came; and the others, each with the reason."""

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    """Those where the pod could not go even if others made room for it."""
    error: str = ""


class HostPriority(_Go, frozen=True, kw_only=True):
    """How good a node is, from 0 to 10."""

    host: str
    score: int


class Victims(_Go, frozen=True, kw_only=True):
    """Pods that would have to go."""

    pods: list[SchedulerPod] | None = None
    num_pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")


class MetaPod(_Go, frozen=True, kw_only=True):
    """A pod by its id."""

    uid: str = msgspec.field(name="UID")


class MetaVictims(_Go, frozen=True, kw_only=True):
    """The same, by their ids."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")


class ExtenderPreemptionArgs(_Go, frozen=True, kw_only=True):
    """A pod that fits nowhere, and who would have to make room for it on each node."""

    pod: SchedulerPod
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(_Go, frozen=True, kw_only=True):
    """The nodes where that would help."""

    node_name_to_meta_victims: dict[str, MetaVictims]
