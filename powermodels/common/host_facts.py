"""Hardware of a host, from /proc and /sys: CPU, sockets, cores, memory and hypervisor.

Any file may be missing (ARM has no model name, small guests no DMI): a default replaces it, so that every
host has facts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from powermodels.common.interface import CpuIdentity, HostFacts
from wire.text import parse_count

_X86_VENDORS = ("GenuineIntel", "AuthenticAMD")
_ARM_LTD = 0x41
_ARM_PARTS = {
    0xD03: "Cortex-A53",
    0xD05: "Cortex-A55",
    0xD08: "Cortex-A72",
    0xD0B: "Cortex-A76",
    0xD0C: "Neoverse-N1",
    0xD40: "Neoverse-V1",
    0xD49: "Neoverse-N2",
    0xD4F: "Neoverse-V2",
}

# DMI product or vendor, and the hypervisor that it identifies.
_DMI_HYPERVISORS = (
    ("Amazon EC2", "EC2"),
    ("Google Compute Engine", "Google Compute Engine"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("Parallels", "Parallels"),
    ("Virtual Machine", "Hyper-V"),
    ("KVM", "KVM"),
    ("QEMU", "KVM"),
    ("OpenStack", "KVM"),
    ("Xen", "Xen"),
)
_CLOCK_HYPERVISORS = (("kvm-clock", "KVM"), ("xen", "Xen"), ("hyperv", "Hyper-V"))
# Bare-metal cloud machines have the name of the cloud in DMI but no hypervisor.
_BARE_METAL_PRODUCT = ".metal"


@dataclass(frozen=True, slots=True)
class CpuInfo:
    """Content of /proc/cpuinfo."""

    model_name: str
    identity: CpuIdentity | None
    sockets: int | None
    cores: int | None
    threads: int
    hypervisor_flag: bool | None
    """Whether the CPU reports a hypervisor; None if it has no such flag (ARM)."""


def read_host_facts(proc: Path, sys: Path) -> HostFacts:
    """Read the facts of the host below these roots."""
    cpu = parse_cpuinfo(read_text(proc / "cpuinfo"))
    return HostFacts(
        cpu_model=cpu.model_name,
        sockets=cpu.sockets or _read_sockets(sys),
        cores=cpu.cores or cpu.threads,
        threads=cpu.threads,
        memory_bytes=parse_memory_bytes(read_text(proc / "meminfo")),
        hypervisor=_read_hypervisor(proc, sys, hypervisor_flag=cpu.hypervisor_flag),
        cpu=cpu.identity,
    )


def parse_cpuinfo(text: str) -> CpuInfo:
    """Parse /proc/cpuinfo of x86 and ARM."""
    processors = [entry for entry in _entries(text) if "processor" in entry]
    first = processors[0] if processors else {}
    places = {
        (entry["physical id"], entry["core id"])
        for entry in processors
        if "physical id" in entry and "core id" in entry
    }
    identity = _identity(first)
    flags = first.get("flags")
    return CpuInfo(
        model_name=first.get("model name") or _arm_name(identity) or "unknown CPU",
        identity=identity,
        sockets=len({socket for socket, _ in places}) or None,
        cores=len(places) or None,
        threads=max(1, len(processors)),
        hypervisor_flag=None if flags is None else "hypervisor" in flags.split(),
    )


def parse_memory_bytes(text: str) -> int:
    """MemTotal of /proc/meminfo; 0 if it is missing."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == "MemTotal" and (kibibytes := parse_count(value.partition("kB")[0])):
            return kibibytes * 1024
    return 0


def _entries(text: str) -> Iterator[dict[str, str]]:
    for block in text.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        yield {key.strip(): value.strip() for key, _, value in pairs}


def _identity(entry: dict[str, str]) -> CpuIdentity | None:
    try:
        if entry.get("vendor_id") in _X86_VENDORS:
            # Some hypervisors write "unknown" for the stepping.
            stepping = entry.get("stepping", "")
            return CpuIdentity(
                entry["vendor_id"],
                int(entry["cpu family"]),
                int(entry["model"]),
                int(stepping) if stepping.isdecimal() else 0,
            )
        if "CPU implementer" in entry:
            return CpuIdentity("ARM", int(entry["CPU implementer"], 0), int(entry["CPU part"], 0))
    except (KeyError, ValueError):
        pass
    return None


def _arm_name(identity: CpuIdentity | None) -> str | None:
    if identity is None:
        return None
    if identity.family == _ARM_LTD and identity.model in _ARM_PARTS:
        return f"ARM {_ARM_PARTS[identity.model]}"
    return f"ARM part {identity.family:#x}/{identity.model:#x}"


def _read_sockets(sys: Path) -> int:
    files = (sys / "devices/system/cpu").glob("cpu[0-9]*/topology/physical_package_id")
    # The kernel writes -1 if the firmware does not report it.
    return len({text for file in files if (text := read_text(file)).isdecimal()}) or 1


def _read_hypervisor(proc: Path, sys: Path, *, hypervisor_flag: bool | None) -> str | None:
    """Name of the hypervisor; None on a physical machine."""
    named = _read_named_hypervisor(proc, sys)
    if hypervisor_flag is None:
        return named
    return (named or "an unknown hypervisor") if hypervisor_flag else None


def _read_named_hypervisor(proc: Path, sys: Path) -> str | None:
    product = read_text(sys / "class/dmi/id/product_name")
    firmware = f"{product} {read_text(sys / 'class/dmi/id/sys_vendor')}"
    if _BARE_METAL_PRODUCT not in product:
        for mark, name in _DMI_HYPERVISORS:
            if mark in firmware:
                return name
    # Firecracker has no DMI; its ACPI tables carry its name.
    if "FIRECK" in read_text(sys / "firmware/acpi/tables/DSDT", limit=64):
        return "Firecracker"
    if read_text(sys / "hypervisor/type") == "xen":
        return "Xen"
    if "kvm" in read_text(proc / "device-tree/hypervisor/compatible"):
        return "KVM"
    clocks = read_text(sys / "devices/system/clocksource/clocksource0/available_clocksource")
    return next((name for mark, name in _CLOCK_HYPERVISORS if mark in clocks), None)


def read_text(path: Path, limit: int = -1) -> str:
    """The text of a file, stripped; empty if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(limit).strip()
    except OSError:
        return ""
