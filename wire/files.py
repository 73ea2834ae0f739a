"""Replace a small file so that readers, and a crash, find the old content or the new one."""

import os
from pathlib import Path

_PRIVATE, _PUBLIC = 0o600, 0o644


def replace_private(path: Path, content: bytes) -> None:
    """Replace a file that only its owner may read, or create it; raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A service runs as the owner of the folder, and must be able to read the file.
    folder = path.parent.stat()
    _replace(path, content, _PRIVATE, folder.st_uid, folder.st_gid)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file, which keeps its owner and its mode, or create it; raises `OSError`."""
    path = path.resolve()  # a link stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        before = path.stat()
    except FileNotFoundError:
        _replace(path, content, _PUBLIC, os.geteuid(), os.getegid())
    else:
        _replace(path, content, before.st_mode & 0o7777, before.st_uid, before.st_gid)


def _replace(path: Path, content: bytes, mode: int, owner: int, group: int) -> None:
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _PRIVATE)
    try:
        if os.geteuid() == 0:
            os.fchown(handle, owner, group)
        os.fchmod(handle, mode)
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(content)
        os.fsync(handle)
    finally:
        os.close(handle)
    new.replace(path)
