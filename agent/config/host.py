"""What is sampled: the host, its power, its container engine."""

from typing import Annotated

from msgspec import Meta

from agent.config.section import Section


class SamplingConfig(Section, frozen=True):
    """How often the host is sampled."""

    interval_seconds: Annotated[float, Meta(ge=0.2, le=300, description="Time between two samples.")] = 3.0


class HostConfig(Section, frozen=True):
    """What counts as the host, and its capacity."""

    cgroup: Annotated[
        str,
        Meta(
            description="Cgroup to treat as the host, such as /node1 or /lxc/web: its limits are the"
            " capacity, its usage is the usage, and its share of the machine's power is its CPU limit divided"
            " by the machine's cores. Empty is the whole machine."
        ),
    ] = ""
    disk_bytes_per_second: Annotated[
        float,
        Meta(
            ge=0,
            le=1e15,
            description="Bandwidth of all disks together. 0 uses the highest bandwidth observed so far.",
        ),
    ] = 0.0
    network_bytes_per_second: Annotated[
        float,
        Meta(
            ge=0,
            le=1e15,
            description="Bandwidth of all network interfaces together. 0 uses their link speed or, if they do"
            " not report one, the highest bandwidth observed so far.",
        ),
    ] = 0.0


class PowerConfig(Section, frozen=True):
    """How power is estimated, and where energy counters are kept."""

    model_file: Annotated[
        str,
        Meta(
            description="File with the power model of this host, written by `wattpack power calibrate` or"
            " learned by the agent from a meter. Empty keeps no model."
        ),
    ] = "/var/lib/wattpack-agent/model.json"
    energy_file: Annotated[
        str,
        Meta(
            description="File that keeps the energy counters across restarts. Empty starts them at 0 after"
            " each restart."
        ),
    ] = "/var/lib/wattpack-agent/energy.json"
    idle_policy: Annotated[
        str,
        Meta(
            pattern="^(none|equal|by-use|by-reservation)$",
            description="How the idle power of the node is divided among containers: `none`, `equal`,"
            " `by-use` or `by-reservation`. The shares are reported separately from the power that"
            " containers add.",
        ),
    ] = "none"
    rapl_reader: Annotated[
        str,
        Meta(
            pattern="^(kernel|pyrapl)$",
            description="How RAPL counters are read: `kernel` from the kernel's files, `pyrapl` through the"
            " library pyRAPL (install wattpack[pyrapl]).",
        ),
    ] = "kernel"


class RootsConfig(Section, frozen=True):
    """Mount points of kernel file systems, which differ if the agent runs in a container."""

    proc: Annotated[str, Meta(description="Mount point of the proc file system.")] = "/proc"
    sys: Annotated[
        str,
        Meta(description="Mount point of the sys file system: cgroups, power meters, network interfaces."),
    ] = "/sys"


class DockerConfig(Section, frozen=True):
    """The engine that provides names, images and labels. Without it, containers are listed by ID."""

    enabled: Annotated[bool, Meta(description="Whether to connect to the engine.")] = True
    socket: Annotated[str, Meta(description="Socket of the Docker engine, or of Podman.")] = (
        "/var/run/docker.sock"
    )
