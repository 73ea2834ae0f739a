"""Trees of small files, as the kernel shows its devices."""

from collections.abc import Mapping
from pathlib import Path


def write_files(folder: Path, files: Mapping[str, object]) -> Path:
    """Write each file with a line's end after its text; the folder is returned."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return folder


def forbid(path: Path) -> None:
    """Make reading a file fail for lack of permission, even for root, whom mode bits do not stop."""
    path.unlink(missing_ok=True)
    path.symlink_to("/proc/sys/vm/compact_memory")
