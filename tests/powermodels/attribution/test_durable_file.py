from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from powermodels.attribution.accounts import DurableFile


def test_what_was_written_last_is_read(tmp_path: Path) -> None:
    file = DurableFile(tmp_path / "deep/energy")
    assert file.read() is None
    for number in range(7):
        file.write(b"x" * (10 - number))
        assert file.read() == b"x" * (10 - number)
    assert DurableFile(tmp_path / "deep/energy").read() == b"xxxx"


def test_a_new_writer_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    for number in range(5):
        DurableFile(tmp_path / "energy").write(b"%d" % number, sync=number == 4)
    assert DurableFile(tmp_path / "energy").read() == b"4"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(earlier=st.binary(max_size=40), later=st.binary(max_size=40), data=st.data())
def test_a_writer_that_dies_in_the_middle_leaves_what_was_before(
    tmp_path: Path, earlier: bytes, later: bytes, data: st.DataObject
) -> None:
    path = tmp_path / "energy"
    file = DurableFile(path)
    file.write(b"long before")
    file.write(earlier)
    whole_before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    file.write(later)
    (written,) = [file for file, content in whole_before.items() if file.read_bytes() != content]
    whole = written.read_bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    # In place: the start of the new page, then what is left of the old one.
    written.write_bytes(whole[:cut] + whole_before[written][cut:])
    if written.read_bytes() == whole:
        return
    assert DurableFile(path).read() == earlier


def test_a_place_that_cannot_be_written_is_an_error_and_one_that_cannot_be_read_is_empty(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("in the way")
    file = DurableFile(tmp_path / "file/energy")
    assert file.read() is None
    with pytest.raises(OSError, match="file"):
        file.write(b"x")
