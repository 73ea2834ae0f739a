"""The one image that the lab's containers run: a static busybox, since none can be pulled."""

import io
import subprocess
import tarfile
from typing import Final

from tests.lab.parts import find_program

NAME: Final = "lab:latest"

BURN: Final = ("sh", "-c", "while :; do :; done")
"""A command that burns a whole core, or exactly what a CPU quota leaves of it."""


def archive() -> bytes:
    """Give the image's root file system as a tar archive, fit for `docker import`."""
    busybox = find_program("busybox")
    assert busybox is not None, "the part's requirements were not checked"
    applets = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        tar.add(busybox, "bin/busybox")
        for applet in applets:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            if applet != "busybox":
                tar.addfile(entry)
    return buffer.getvalue()
