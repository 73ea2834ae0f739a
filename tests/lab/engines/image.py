"""The image of the lab's containers: a static busybox and programs of this machine; nothing is pulled."""

import io
import os
import re
import subprocess
import tarfile
from typing import Final

from tests.lab.parts import find_program

NAME: Final = "lab:latest"

BURN: Final = ("sh", "-c", "while :; do :; done")
"""A command that uses a whole core, or all of its CPU quota."""


_LIBRARY: Final = re.compile(r"(/\S+) \(0x")
"""A library in the output of `ldd`."""


def archive(*programs: str) -> bytes:
    """Return the image's root file system as a tar archive for `docker import`.

    It also has these programs of this machine, with their libraries.
    """
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
            if applet != "busybox" and applet not in programs:
                tar.addfile(entry)
        for path, name in _files(programs):
            tar.add(os.path.realpath(path), name.lstrip("/"))
    return buffer.getvalue()


def _files(programs: tuple[str, ...]) -> list[tuple[str, str]]:
    """List the files of the programs and their libraries, with the path of each in the image."""
    found = {}
    for program in programs:
        path = find_program(program)
        assert path is not None, "the part's requirements were not checked"
        found[path] = f"bin/{program}"
        listing = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
        found |= {library: library for library in _LIBRARY.findall(listing)}
    return list(found.items())
