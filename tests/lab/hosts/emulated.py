"""An emulated host with its own kernel, cgroup v2, systemd, Docker with the systemd driver, and PSI.

The processor is emulated too, so it is slow: use it to test correctness, not speed. One call is one boot: a
function prepares the root folder, a script runs, and the files in /results are returned.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.lab.hosts.trees import host_tree, run_step, writable_copy
from tests.lab.reaper import Reaper

DISK_SIZE: Final = "3G"

# Started instead of the usual target, so after everything else; the machine powers off when it ends.
_UNIT: Final = """\
[Unit]
Wants=multi-user.target
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/bin/sh -eu /lab/script
StandardOutput=journal+console
ExecStopPost=/bin/sh -c 'echo "$EXIT_STATUS" >/results/exit-status'
ExecStopPost=/bin/systemctl --force poweroff
"""


class EmulatedHostError(Exception):
    """The script failed or did not start; the text has the output of the console."""


def emulated_host(
    prepare: Callable[[Path], None], script: str, *, limit_seconds: float = 360.0
) -> dict[str, bytes]:
    """Boot a host whose root folder `prepare` has changed, run a shell script there, and return its /results.

    The script runs as root when every enabled service is up. It must succeed, and the host must power off
    within the limit.
    """
    with Reaper() as reaper:
        scratch = reaper.make_directory("emulated")
        serial = scratch / "serial"
        root = writable_copy(host_tree(), reaper)
        prepare(root)
        (root / "results").mkdir()
        (root / "lab").mkdir(exist_ok=True)
        (root / "lab/script").write_text(script, encoding="utf-8")
        (root / "etc/systemd/system/lab.service").write_text(_UNIT, encoding="utf-8")
        disk = scratch / "disk"
        run_step(reaper, scratch / "mkfs", "mkfs.ext4", "-q", "-d", str(root), str(disk), DISK_SIZE)
        machine = reaper.start(_qemu(root, disk), log=serial, grace_seconds=1)
        try:
            machine.wait(limit_seconds)
        except subprocess.TimeoutExpired as error:
            raise EmulatedHostError(f"not done within {limit_seconds:g} s:\n{_console(serial)}") from error
        results = _read_results(disk, scratch)
        status = results.pop("exit-status", b"unknown").decode().strip()
        if status != "0":
            raise EmulatedHostError(f"the script's exit status is {status}:\n{_console(serial)}")
        return results


def _qemu(root: Path, disk: Path) -> list[str]:
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    (initrd,) = (root / "boot").glob("initrd.img-*")
    return [
        *("qemu-system-x86_64", "-nographic", "-no-reboot", "-nic", "none"),
        # Two emulated processors, because hardware virtualisation is often missing inside a virtual machine.
        *("-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2048"),
        *("-kernel", str(kernel), "-initrd", str(initrd)),
        *("-append", "root=/dev/vda rw console=ttyS0 quiet psi=1 systemd.unit=lab.service"),
        *("-drive", f"file={disk},if=virtio,format=raw,cache=unsafe"),
    ]


def _read_results(disk: Path, scratch: Path) -> dict[str, bytes]:
    """Read /results from a disk that is not mounted."""
    subprocess.run(["debugfs", "-R", f"rdump /results {scratch}", str(disk)], check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in (scratch / "results").iterdir()}


def _console(serial: Path) -> str:
    return serial.read_text(encoding="utf-8", errors="replace")[-8000:]
