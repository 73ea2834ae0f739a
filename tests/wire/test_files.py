import stat
from pathlib import Path

import pytest

from wire.files import replace_file, replace_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_is_private_whatever_it_was_before(tmp_path: Path) -> None:
    path = tmp_path / "new" / "token"
    replace_private(path, b"one")
    path.chmod(0o644)
    replace_private(path, b"two")
    assert (path.read_bytes(), mode(path)) == (b"two", 0o600)


def test_a_replaced_file_keeps_its_mode_and_a_link_to_it(tmp_path: Path) -> None:
    path, link = tmp_path / "settings", tmp_path / "link"
    replace_file(path, b"one")
    assert mode(path) == 0o644
    path.chmod(0o640)
    link.symlink_to(path)
    replace_file(link, b"two")
    assert (path.read_bytes(), mode(path), link.is_symlink()) == (b"two", 0o640, True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "settings"]


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError("no space left on device")

    path = tmp_path / "settings"
    path.write_bytes(b"one")
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        replace_file(path, b"two")
    assert path.read_bytes() == b"one"
