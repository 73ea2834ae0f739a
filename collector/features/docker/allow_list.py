"""Which settings of a container may be copied when it moves to another host. Pure.

The description of a container comes from the engine of its current host. If that host is compromised, so is
the description: it must not start anything on another host that can reach beyond its container. So each field
that is copied is in a list, with the type of its value. A container with any other field that differs from
the default stays where it is: without the field, it would break or lose a protection.

Fields that reach beyond the container (privileged mode, namespaces of the host, devices, capabilities,
security options) need a grant for this value in the settings of the target, `[driver.allow]`. Binds and
volumes have no grant: data stays on its host.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec

from collector.drivers.engine.client import Json

_LOCAL_LOG_DRIVERS = ("json-file", "local", "journald", "none")
_LOG_OPTIONS = frozenset(
    {"max-size", "max-file", "compress", "mode", "max-buffer-size", "tag", "labels", "env"}
)
_RESTRICTIONS = ("no-new-privileges", "no-new-privileges:true", "no-new-privileges=true")
"""Security options that only take rights away."""
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


class _Device(_StrictModel):
    path_on_host: str
    path_in_container: str = ""
    cgroup_permissions: str = ""


class _Log(_StrictModel):
    type: str
    config: dict[str, str] | None = None


CONFIG_FIELDS: Mapping[str, object] = {
    **dict.fromkeys(("Image", "User", "WorkingDir", "Hostname", "Domainname", "StopSignal"), str),
    **dict.fromkeys(("Cmd", "Entrypoint"), str | list[str]),
    **dict.fromkeys(("Env", "Shell"), list[str]),
    **dict.fromkeys(("Tty", "OpenStdin", "StdinOnce"), bool),
    "Labels": dict[str, str],
    "ExposedPorts": dict[str, _EmptyObject],
    "Healthcheck": _Healthcheck,
    "StopTimeout": int,
}
"""The fields of `Config` that are copied, and their types."""

HOST_FIELDS: Mapping[str, object] = {
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
}
"""The fields of `HostConfig` that are copied without a grant, and their types."""

_LEFT_BEHIND = frozenset({"ContainerIDFile", "Links", "ConsoleSize", "AutoRemove"})
"""Fields that concern only the current host, or for which a container stays anyway."""
_DEFAULTS: Mapping[str, object] = {
    # The target sets its own. An empty list would uncover all of /proc.
    **dict.fromkeys(("MaskedPaths", "ReadonlyPaths"), Annotated[list[str], msgspec.Meta(min_length=1)]),
    "CgroupnsMode": Literal["host"],  # on cgroup v1
    "Isolation": Literal["default"],
    "MemorySwappiness": Literal[-1],
    "Runtime": Literal["runc"],
}
"""Values that an engine fills in: the engine of the target fills in its own."""
_NAMESPACES = {
    "PidMode": "pid",
    "NetworkMode": "network",
    "IpcMode": "ipc",
    "UTSMode": "uts",
    "UsernsMode": "userns",
}


class _Grants(NamedTuple):
    """The grants that a field needs, since it can reach beyond the container."""

    field: str
    value: object
    grants: Sequence[str] | None
    """None if no grant allows the value."""


def portable_config(config: Json) -> Json:
    """Return the fields of `Config` to copy. The others concern the client that created the container."""
    return {
        name: config[name]
        for name, kind in CONFIG_FIELDS.items()
        if name in config and _is(config[name], kind)
    }


def portable_host_config(host_config: Json, grants: Collection[str] = ()) -> Json:
    """Return the part of `HostConfig` that may be copied to a host with these grants."""
    plain = {
        name: value
        for name, kind in HOST_FIELDS.items()
        if _is_set(value := host_config.get(name)) and _is(value, kind) and not _is_default(name, value)
    }
    granted = {
        need.field: need.value
        for need in _required_grants(host_config)
        if need.grants is not None and {*need.grants} <= {*grants}
    }
    return plain | granted


def refusals(host_config: Json, grants: Collection[str] = ()) -> Iterator[str]:
    """Return why a container may not move to a host with these grants, for each field that forbids it."""
    needs = {need.field: need for need in _required_grants(host_config)}
    for need in needs.values():
        for missing in need.grants or ():
            if missing not in grants:
                yield f"it needs {_printable(missing)}, which [driver.allow] does not grant on the other host"
    for name, value in host_config.items():
        if name in needs:
            is_allowed = needs[name].grants is not None
        else:
            is_allowed = name in _LEFT_BEHIND or _is_default(name, value) or _is(value, HOST_FIELDS.get(name))
        if _is_set(value) and not is_allowed:
            yield f"it uses {_printable(name)} = {_printable(value)}, which may not move to another host"


def _required_grants(host_config: Json) -> Iterator[_Grants]:
    values = {
        name: value for name, value in host_config.items() if _is_set(value) and not _is_default(name, value)
    }
    for name, grants in (
        ("Privileged", ["privileged"] if values.get("Privileged") is True else None),
        ("CapAdd", _each("capability", _texts(values.get("CapAdd")))),
        ("Devices", _devices(values.get("Devices"))),
        ("SecurityOpt", _security(values.get("SecurityOpt"))),
        ("Sysctls", _each("sysctl", _keys(values.get("Sysctls")))),
        ("Runtime", _each("runtime", _texts([values.get("Runtime")]))),
        ("CgroupParent", _each("cgroup-parent", _texts([values.get("CgroupParent")]))),
        ("LogConfig", _log(values.get("LogConfig"))),
        *((name, _namespace(name, values.get(name))) for name in _NAMESPACES),
    ):
        if name in values and not (name == "IpcMode" and _is(values[name], HOST_FIELDS[name])):
            yield _Grants(name, values[name], grants)


def _namespace(name: str, value: object) -> Sequence[str] | None:
    if value == "host":
        return [f"{_NAMESPACES[name]}=host"]
    # A network has a name. The namespace of another container, `container:NAME`, is on the current host.
    return [] if name == "NetworkMode" and isinstance(value, str) and ":" not in value else None


def _devices(value: object) -> Sequence[str] | None:
    if not _is(value, list[_Device]):
        return None
    return [f"device={each.path_on_host}" for each in msgspec.convert(value, list[_Device])]


def _security(value: object) -> Sequence[str] | None:
    options = _texts(value)
    return _each(
        "security", None if options is None else [each for each in options if each not in _RESTRICTIONS]
    )


def _log(value: object) -> Sequence[str] | None:
    if not _is(value, _Log):
        return None
    log = msgspec.convert(value, _Log)
    if log.type in _LOCAL_LOG_DRIVERS and {*(log.config or {})} <= _LOG_OPTIONS:
        return []
    # It can make the engine of the target connect to an address of the container's choice.
    return [f"log={log.type}"]


def _each(name: str, values: Sequence[str] | None) -> Sequence[str] | None:
    return None if values is None else [f"{name}={value}" for value in values]


def _texts(value: object) -> list[str] | None:
    return msgspec.convert(value, list[str]) if _is(value, list[str]) else None


def _keys(value: object) -> list[str] | None:
    return list(msgspec.convert(value, dict[str, str])) if _is(value, dict[str, str]) else None


def _is(value: object, kind: object) -> bool:
    if kind is None:
        return False
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _is_set(value: object) -> bool:
    return value not in (None, "", 0, [], {})


def _is_default(name: str, value: object) -> bool:
    return _is(value, _DEFAULTS.get(name))


def _printable(value: object) -> str:
    """Return a value of a host that may be compromised as printable text."""
    text = ascii(value)[1:-1] if isinstance(value, str) else ascii(value)
    return text if len(text) <= _MAX_PRINTED else text[:_MAX_PRINTED] + "..."
