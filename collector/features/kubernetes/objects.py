"""Parts of Kubernetes objects that the driver and the scheduler extender share. Pure.

Only the fields in use are declared. Kubernetes omits an empty map or list.
"""

from datetime import datetime

import msgspec

_MIRROR, _SOURCE, _API = "kubernetes.io/config.mirror", "kubernetes.io/config.source", "api"


class KubernetesObject(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base of the objects: camel case, with defaults for omitted fields."""


class OwnerReference(KubernetesObject, frozen=True, kw_only=True):
    """The owner of a pod."""

    kind: str = ""
    """Kind of the owner, such as `ReplicaSet`."""
    name: str = ""
    """Name of the owner."""
    controller: bool = False


class ObjectMeta(KubernetesObject, frozen=True, kw_only=True):
    """Metadata of an object."""

    name: str = ""
    """Name of the object."""
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: datetime | None = None
    """When the object was created."""
    deletion_timestamp: str | None = None
    """When the object was or will be deleted; null unless its deletion was requested."""

    @property
    def owner(self) -> OwnerReference | None:
        """The controller that replaces a pod."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def workload(self) -> str:
        """The workload of a pod, `namespace/name`; the Deployment rather than its ReplicaSet."""
        if (owner := self.owner) is None:
            return self.full_name
        revision = self.labels.get("pod-template-hash")
        name = owner.name.removesuffix(f"-{revision}") if owner.kind == "ReplicaSet" else owner.name
        return f"{self.namespace}/{name}"

    @property
    def is_daemon(self) -> bool:
        """Whether a pod runs on every node."""
        return any(owner.kind == "DaemonSet" for owner in self.owner_references)

    @property
    def is_static(self) -> bool:
        """Whether the kubelet manages a pod, and the API server only mirrors it."""
        return _MIRROR in self.annotations or self.annotations.get(_SOURCE, _API) != _API


class ResourceRequirements(KubernetesObject, frozen=True, kw_only=True):
    """Requests and limits of a container, or of a whole pod."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}
