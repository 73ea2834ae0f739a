"""Hosts by their /proc files."""

from pathlib import Path

SKYLAKE = """\
processor\t: {n}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6140 CPU @ 2.30GHz
stepping\t: 4
physical id\t: {n}
core id\t\t: 0
flags\t\t: fpu vme
"""
HASWELL = """\
processor\t: {n}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 60
model name\t: Intel(R) Xeon(R) CPU E3-1265L v3 @ 2.50GHz
stepping\t: 3
physical id\t: 0
core id\t\t: {n}
flags\t\t: fpu vme
"""


def write_proc(folder: Path, processor: str, processors: int = 2) -> Path:
    """A /proc with so many processors of a kind, and 188 GiB of memory."""
    folder.mkdir(parents=True)
    (folder / "cpuinfo").write_text("\n".join(processor.format(n=n) for n in range(processors)))
    (folder / "meminfo").write_text("MemTotal: 196608000 kB\n")
    return folder
