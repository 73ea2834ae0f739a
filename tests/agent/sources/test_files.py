from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.files import parse_field, read_file
from wire.text import parse_count


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"0123456789" * 50_000)
    assert read_file(str(path)) == path.read_bytes()


def test_a_list_that_the_kernel_hands_out_in_pieces_is_read_whole() -> None:
    text = read_file("/proc/self/maps")
    assert text is not None
    assert len(text) > 4096
    assert b"[stack]" in text[-4096:]


def test_unreadable_file_is_none(tmp_path: Path) -> None:
    assert read_file(str(tmp_path / "missing")) is None
    assert read_file(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b"12\n", 12),
        (b" 0 ", 0),
        (b"9223372036854775807", 2**63 - 1),
        (b"-1\n", None),
        (b"max\n", None),
        (b"1_000", None),
        (b"1.5", None),
        (b"", None),
        (b"9" * 5000, None),
        (None, None),
    ],
)
def test_a_count_is_digits_and_nothing_else(text: bytes | None, count: int | None) -> None:
    assert parse_count(text) == count


def test_a_field_is_found_by_its_whole_name() -> None:
    text = b"inactive_file 1\ntotal_inactive_file 2\nfile 3"
    assert parse_field(text, b"inactive_file") == 1
    assert parse_field(text, b"total_inactive_file") == 2
    assert parse_field(text, b"file") == 3
    assert parse_field(text, b"inactive") is None
    assert parse_field(None, b"file") is None


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.integers(0, 2**63 - 1), min_size=1))
def test_every_field_of_a_file_is_found(fields: dict[str, int]) -> None:
    text = "".join(f"{key} {value}\n" for key, value in fields.items()).encode()
    assert {key: parse_field(text, key.encode()) for key in fields} == fields


@given(st.binary(), st.binary())
def test_any_bytes_can_be_parsed(text: bytes, key: bytes) -> None:
    parse_count(text)
    parse_field(text, key)
