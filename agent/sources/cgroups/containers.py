"""Finds the container of a cgroup by its path.

Each runtime has its own names for cgroups, and others if systemd manages them:

    /docker/<id>                                          docker
    /<any --cgroup-parent>/<id>                           docker
    /system.slice/docker-<id>.scope                       docker, systemd driver
    /docker/buildkit/<step>                               a step of an image build
    /machine.slice/libpod-<id>.scope/container            podman, systemd driver
    /libpod_parent/libpod-<id>                            podman
    /libpod_parent/<pod>/libpod-<id>                      podman, in a pod
    /system.slice/web.service/libpod-payload-<id>         podman run by a unit
    /kubepods/burstable/pod<uid>/<id>                     Kubernetes on containerd
    /kubepods.slice/.../kubepods-pod<uid>.slice/cri-containerd-<id>.scope   the same, systemd driver
    /kubepods.slice/.../kubepods-pod<uid>.slice/crio-<id>.scope             Kubernetes on CRI-O
    /.../kubepods-pod<uid>.slice:cri-containerd:<id>      containerd and kubelet with different drivers

An `<id>` is 64 hexadecimal digits. The outermost container on a path wins: cgroups count what is
below them, so the usage of a container inside a container (Docker in Docker, `init.scope` of systemd) is part
of the outer one, and listing it too would count it twice.
"""

import os
import re
from dataclasses import dataclass
from functools import lru_cache

import msgspec

_RUNTIME_OF_PREFIX = {
    "docker": "docker",
    "libpod": "podman",
    "libpod-payload": "podman",
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "crio": "cri-o",
}
"""Prefix of the ID. Any other prefix, such as `crio-conmon`, is a helper process."""

_NAMED = re.compile(
    r"(?:(?P<pod_slice>[^:]+\.slice):)?(?:(?P<prefix>[a-z][a-z-]*)[-:])?(?P<id>[0-9a-f]{64})(?:\.scope)?"
)
_BUILD_STEP = re.compile(r"(?:docker-)?(?P<id>[0-9a-z]{25})(?:\.scope)?")
_KUBERNETES_POD = re.compile(
    r"(?:.*-)?pod(?P<uid>[0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?:\.slice)?"
)
_PODMAN_POD = re.compile(r"(?:.*libpod_pod_)?(?P<uid>[0-9a-f]{64})(?:\.slice)?")
_PODMAN_PARENT = "libpod_parent"
_CACHED_PATHS = 4096


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """A container, from the path of its cgroup."""

    id: str
    runtime: str
    pod_uid: str | None = None
    """UID of its Kubernetes or podman pod."""


@lru_cache(maxsize=_CACHED_PATHS)
def container_of(path: str) -> ContainerRef | None:
    """The outermost container of a cgroup path; None outside containers."""
    parents: list[str] = []
    for name in path.split("/"):
        if not name:
            continue
        if (container := _match_container(name, parents)) or (container := _match_build_step(name, parents)):
            return container
        parents.append(name)
    return None


def _match_container(name: str, parents: list[str]) -> ContainerRef | None:
    match = _NAMED.fullmatch(name)
    if match is None:
        return None
    pod = _pod_uid([*parents, match["pod_slice"]] if match["pod_slice"] else parents)
    if match["prefix"] is not None:
        runtime = _RUNTIME_OF_PREFIX.get(match["prefix"])
        return ContainerRef(match["id"], runtime, pod) if runtime else None
    if name != match["id"]:
        return None
    if parents and parents[-1] == _PODMAN_PARENT:
        return None  # a podman pod: its containers are one level down
    return ContainerRef(name, "containerd" if pod else "docker", pod)


def _match_build_step(name: str, parents: list[str]) -> ContainerRef | None:
    match = _BUILD_STEP.fullmatch(name)
    if match is None or not (name.startswith("docker-") or parents[-1:] == ["buildkit"]):
        return None
    return ContainerRef(match["id"], "buildkit")


def _pod_uid(parents: list[str]) -> str | None:
    if not parents:
        return None
    if match := _KUBERNETES_POD.fullmatch(parents[-1]):
        return match["uid"].replace("_", "-")
    in_podman = "libpod_pod_" in parents[-1] or parents[-2:-1] == [_PODMAN_PARENT]
    if in_podman and (match := _PODMAN_POD.fullmatch(parents[-1])):
        return match["uid"]
    return None


class FoundContainer(msgspec.Struct, frozen=True, gc=False):
    """A container and its cgroup."""

    container: ContainerRef
    path: str
    """The path of its cgroup, which is the same in all hierarchies."""
    directory: str
    """The directory of its cgroup in the hierarchy of the walk."""
    inode: int
    """The inode of `directory`: a cgroup that was created again has another one."""


@dataclass(frozen=True, slots=True)
class CgroupWalk:
    """The containers that a walk found."""

    found: tuple[FoundContainer, ...] = ()
    """Sorted by ID, without duplicates."""
    some_forbidden: bool = False
    """The user has no permission to list some directories."""


def find_containers(root: str, subtree: str = "") -> CgroupWalk:
    """Walk the hierarchy at `root`, starting at `subtree`; ignores cgroups that disappear during the walk.

    The walk does not descend into containers. Its start is never a container itself: it is the host.
    """
    found: dict[str, FoundContainer] = {}
    some_forbidden = False
    top, prefix = (f"{root}/{subtree}", f"{subtree}/") if subtree else (root, "")
    pending = [""]
    while pending:
        parent = pending.pop()
        try:
            with os.scandir(f"{top}/{parent}") as entries:
                directories = [
                    (entry.name, entry.inode()) for entry in entries if entry.is_dir(follow_symlinks=False)
                ]
        except PermissionError:
            some_forbidden = True
            continue
        except OSError:
            continue
        for name, inode in directories:
            path = f"{parent}/{name}" if parent else name
            container = container_of(path)
            if container is None:
                pending.append(path)
            else:
                found.setdefault(
                    container.id, FoundContainer(container, prefix + path, f"{top}/{path}", inode)
                )
    return CgroupWalk(tuple(found[identifier] for identifier in sorted(found)), some_forbidden)
