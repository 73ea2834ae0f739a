from pathlib import Path

import pytest

from powermodels.common.host_facts import parse_cpuinfo, parse_memory_bytes, read_host_facts
from powermodels.common.interface import CpuIdentity

XEON = """\
processor\t: {processor}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6140 CPU @ 2.30GHz
stepping\t: 4
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu vme{flags}
"""
ALTRA = """\
processor\t: {processor}
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd0c
CPU revision\t: 1
"""


def xeon(sockets: int, cores: int, threads: int, flags: str = "") -> str:
    places = [(s, c) for _ in range(threads) for s in range(sockets) for c in range(cores)]
    return "\n".join(
        XEON.format(processor=n, socket=s, core=c, flags=flags) for n, (s, c) in enumerate(places)
    )


def altra(cores: int) -> str:
    return "\n".join(ALTRA.format(processor=n) for n in range(cores))


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_sockets_cores_and_threads_of_x86() -> None:
    cpu = parse_cpuinfo(xeon(sockets=2, cores=18, threads=2))
    assert (cpu.sockets, cpu.cores, cpu.threads) == (2, 36, 72)
    assert cpu.identity == CpuIdentity("GenuineIntel", 6, 85, 4)
    assert cpu.hypervisor_flag is False


def test_an_unknown_stepping_does_not_lose_the_rest() -> None:
    cpu = parse_cpuinfo(xeon(1, 1, 1).replace("stepping\t: 4", "stepping\t: unknown"))
    assert cpu.identity == CpuIdentity("GenuineIntel", 6, 85, 0)


def test_cpu_without_a_model_has_no_identity() -> None:
    cpu = parse_cpuinfo(xeon(1, 1, 1).replace("model\t\t: 85\n", ""))
    assert cpu.identity is None
    assert cpu.model_name.startswith("Intel")


def test_arm_has_no_model_name_and_no_places() -> None:
    cpu = parse_cpuinfo(altra(80))
    assert cpu.model_name == "ARM Neoverse-N1"
    assert (cpu.sockets, cpu.cores, cpu.threads) == (None, None, 80)
    assert cpu.identity == CpuIdentity("ARM", 0x41, 0xD0C)


def test_sockets_of_arm_come_from_the_topology(tmp_path: Path) -> None:
    proc = write(tmp_path / "proc", {"cpuinfo": altra(4)})
    packages = {f"devices/system/cpu/cpu{n}/topology/physical_package_id": f"{n // 2}\n" for n in range(4)}
    facts = read_host_facts(proc, write(tmp_path / "sys", packages))
    assert (facts.sockets, facts.cores, facts.threads) == (2, 4, 4)


def test_unknown_topology_is_one_socket(tmp_path: Path) -> None:
    proc = write(tmp_path / "proc", {"cpuinfo": altra(2)})
    sys = write(tmp_path / "sys", {"devices/system/cpu/cpu0/topology/physical_package_id": "-1\n"})
    assert read_host_facts(proc, sys).sockets == 1


def test_memory() -> None:
    assert parse_memory_bytes("MemFree: 1 kB\nMemTotal:       24682416 kB\n") == 24682416 * 1024
    assert parse_memory_bytes("MemTotal:\n") == 0


def test_nothing_readable_is_still_a_host(tmp_path: Path) -> None:
    facts = read_host_facts(tmp_path / "proc", tmp_path / "sys")
    assert (facts.cpu_model, facts.sockets, facts.cores, facts.threads) == ("unknown CPU", 1, 1, 1)
    assert facts.memory_bytes == 0
    assert facts.hypervisor is None
    assert facts.cpu is None


@pytest.mark.parametrize(
    ("files", "hypervisor"),
    [
        ({"class/dmi/id/product_name": "m5.large", "class/dmi/id/sys_vendor": "Amazon EC2"}, "EC2"),
        ({"class/dmi/id/product_name": "VMware Virtual Platform"}, "VMware"),
        ({"class/dmi/id/product_name": "Virtual Machine"}, "Hyper-V"),
        ({"class/dmi/id/sys_vendor": "QEMU"}, "KVM"),
        ({"hypervisor/type": "xen\n"}, "Xen"),
        ({"firmware/acpi/tables/DSDT": "DSDTS\x0f\x00\x00\x02wFIRECKFCVMDSDT"}, "Firecracker"),
        ({"devices/system/clocksource/clocksource0/available_clocksource": "tsc kvm-clock \n"}, "KVM"),
        ({}, "an unknown hypervisor"),
    ],
)
def test_a_guest_names_its_hypervisor(tmp_path: Path, files: dict[str, str], hypervisor: str) -> None:
    proc = write(tmp_path / "proc", {"cpuinfo": xeon(1, 2, 1, flags=" hypervisor")})
    assert read_host_facts(proc, write(tmp_path / "sys", files)).hypervisor == hypervisor


def test_a_cloud_machine_let_whole_is_no_guest(tmp_path: Path) -> None:
    dmi = {"class/dmi/id/product_name": "m6g.metal", "class/dmi/id/sys_vendor": "Amazon EC2"}
    sys = write(tmp_path / "sys", dmi)
    for cpuinfo in (xeon(2, 24, 2), altra(64)):
        assert read_host_facts(write(tmp_path / "proc", {"cpuinfo": cpuinfo}), sys).hypervisor is None


def test_this_machine() -> None:
    facts = read_host_facts(Path("/proc"), Path("/sys"))
    assert 1 <= facts.sockets <= facts.cores <= facts.threads
    assert facts.memory_bytes > 2**28
