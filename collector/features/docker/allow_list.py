"""Which settings of a container are copied when it moves to another host. Pure.

The description of a container comes from the engine of its current host. If that host is compromised, so is
the description: it must not start anything on another host that can reach beyond its container. So each field
that is copied is in a list, with the type of its value. A container with any other field that differs from
the default stays where it is: without the field, it would break or lose a protection. That includes fields
that reach beyond the container: privileged mode, namespaces of the host, devices, capabilities, binds.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import msgspec

from collector.act.drivers.engine.client import Json

_LogOption = Literal["max-size", "max-file", "compress", "mode", "max-buffer-size", "tag", "labels", "env"]
_MAX_PRINTED = 80


class _StrictModel(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    """Base of the models. An engine reads names in any case, so an unknown name is invalid."""


class _EmptyObject(_StrictModel):
    pass


class _Port(_StrictModel):
    host_ip: str = ""
    host_port: str = ""


class _Ulimit(_StrictModel):
    name: str
    soft: int = 0
    hard: int = 0


class _Restart(_StrictModel):
    name: str = ""
    maximum_retry_count: int = 0


class _TmpfsOptions(_StrictModel):
    size_bytes: int = 0
    mode: int = 0


class _TmpfsMount(_StrictModel):
    type: Literal["tmpfs"]
    target: str
    read_only: bool = False
    tmpfs_options: _TmpfsOptions | None = None


class _Healthcheck(_StrictModel):
    test: list[str] | None = None
    interval: int = 0
    timeout: int = 0
    retries: int = 0
    start_period: int = 0
    start_interval: int = 0


class _Log(_StrictModel):
    """Logs that stay on the host. Others make the engine connect to an address of the container's choice."""

    type: Literal["json-file", "local", "journald", "none"]
    config: dict[_LogOption, str] | None = None


_CONFIG_FIELDS: Mapping[str, object] = {
    **dict.fromkeys(("Image", "User", "WorkingDir", "Hostname", "Domainname", "StopSignal"), str),
    **dict.fromkeys(("Cmd", "Entrypoint"), str | list[str]),
    **dict.fromkeys(("Env", "Shell"), list[str]),
    **dict.fromkeys(("Tty", "OpenStdin", "StdinOnce"), bool),
    "Labels": dict[str, str],
    "ExposedPorts": dict[str, _EmptyObject],
    "Healthcheck": _Healthcheck,
    "StopTimeout": int,
}
"""The fields of `Config` that are copied, and their types. The others concern the client that created it."""

_HOST_FIELDS: Mapping[str, object] = {
    **dict.fromkeys(
        ("NanoCpus", "CpuQuota", "CpuPeriod", "CpuShares", "PidsLimit", "BlkioWeight", "ShmSize"), int
    ),
    **dict.fromkeys(("Memory", "MemorySwap", "MemoryReservation", "MemorySwappiness", "KernelMemory"), int),
    **dict.fromkeys(("CpusetCpus", "CpusetMems"), str),
    **dict.fromkeys(("ReadonlyRootfs", "PublishAllPorts", "Init"), bool),
    **dict.fromkeys(("CapDrop", "Dns", "DnsOptions", "DnsSearch", "ExtraHosts", "GroupAdd"), list[str]),
    "OomScoreAdj": Annotated[int, msgspec.Meta(ge=0)],
    "RestartPolicy": _Restart,
    "PortBindings": dict[str, list[_Port] | None],
    "Ulimits": list[_Ulimit],
    "Tmpfs": dict[str, str],
    "Mounts": list[_TmpfsMount],
    "IpcMode": Literal["none", "private", "shareable"],
    "CgroupnsMode": Literal["private"],
    # A name. The network of another container, `container:NAME`, is on the current host.
    "NetworkMode": Annotated[str, msgspec.Meta(pattern=r"^(?!host\Z)[^:]*\Z")],
    # Options that only take rights away.
    "SecurityOpt": list[Literal["no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"]],
    "LogConfig": _Log,
}
"""The fields of `HostConfig` that are copied, and their types."""

_DEFAULTS: Mapping[str, object] = {
    # The target sets its own. An empty list would uncover all of /proc.
    **dict.fromkeys(("MaskedPaths", "ReadonlyPaths"), Annotated[list[str], msgspec.Meta(min_length=1)]),
    "CgroupnsMode": Literal["host"],  # on cgroup v1
    "Isolation": Literal["default"],
    "MemorySwappiness": Literal[-1],
    "Runtime": Literal["runc"],
    # These concern only the current host, or a container stays anyway.
    **dict.fromkeys(("ContainerIDFile", "Links", "ConsoleSize", "AutoRemove"), object),
}
"""Values that are left behind: the engine of the target fills in its own."""


def portable_config(config: Json) -> Json:
    """Return the fields of `Config` to copy."""
    return {name: value for name, value in config.items() if _is(value, _CONFIG_FIELDS.get(name))}


def portable_host_config(host_config: Json) -> Json:
    """Return the fields of `HostConfig` to copy."""
    return {name: value for name, value in _own(host_config) if _is(value, _HOST_FIELDS.get(name))}


def refusals(host_config: Json) -> Iterator[str]:
    """Return why a container may not move to another host, for each field that forbids it."""
    for name, value in _own(host_config):
        if not _is(value, _HOST_FIELDS.get(name)):
            yield f"it uses {_printable(name)} = {_printable(value)}, which may not move to another host"


def _own(host_config: Json) -> Iterator[tuple[str, object]]:
    """Return the fields that differ from the defaults of an engine."""
    for name, value in host_config.items():
        if value not in (None, "", 0, [], {}) and not _is(value, _DEFAULTS.get(name)):
            yield name, value


def _is(value: object, kind: object) -> bool:
    if kind is None:
        return False
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _printable(value: object) -> str:
    """Return a value of a host that may be compromised as printable text."""
    text = ascii(value)[1:-1] if isinstance(value, str) else ascii(value)
    return text if len(text) <= _MAX_PRINTED else text[:_MAX_PRINTED] + "..."
