import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.cgroups import v1
from agent.sources.readings import DiskTotals, MemoryLevels
from tests.agent.trees import V1_NO_LIMIT


@pytest.mark.parametrize("limit", [V1_NO_LIMIT, "9223372036854710272", "18446744073709551615"])
def test_the_largest_number_is_no_limit_whatever_the_page_size(limit: str) -> None:
    assert v1.parse_memory_limit_bytes(f"hierarchical_memory_limit {limit}\n".encode()) is None


def test_a_container_that_has_done_no_io_has_done_zero_bytes() -> None:
    assert v1.parse_disk(b"Total 0\n", b"Total 0\n", frozenset()) == DiskTotals(0, 0, written_bytes=0)
    assert v1.parse_disk(b"", b" \n", frozenset()) == DiskTotals(0, 0, written_bytes=0)
    assert v1.parse_disk(b"rubbish\n", None, frozenset()) == DiskTotals()


def test_figures_are_those_of_the_whole_container_with_what_is_nested_in_it() -> None:
    stat = b"rss 1\ncache 2\nswap 3\ninactive_file 4\ntotal_rss 10\ntotal_cache 20\ntotal_swap 30\n"
    assert v1.parse_memory(b"99\n", stat + b"total_inactive_file 40\n", None) == MemoryLevels(
        99, 40, 10, 20, 30
    )


def test_there_is_no_cpu_time_without_the_file_that_counts_it() -> None:
    assert v1.parse_cpu(None, b"user 1\nsystem 2\n", None) is None


@given(st.binary(), st.binary())
def test_any_bytes_can_be_parsed(text: bytes, other: bytes) -> None:
    v1.parse_cpu(text, other, text)
    v1.parse_cpu(b"1\n", b"user " + text, b"throttled_time " + text)
    v1.parse_memory(text, other, text)
    v1.parse_memory(text, b"total_rss " + text, b"oom_kill " + text)
    v1.parse_memory_limit_bytes(b"hierarchical_memory_limit " + text)
    v1.parse_quota_cores(text, other)
    v1.parse_disk(text, other, frozenset())
    v1.parse_service(b"8:0 Read " + text, frozenset())


@given(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**62))
def test_io_is_what_was_read_and_written_on_disks(read: int, written: int, elsewhere: int) -> None:
    text = f"8:0 Read {read}\n8:0 Write {written}\n8:0 Total 9\n7:0 Read {elsewhere}\nTotal 9\n".encode()
    assert v1.parse_service(text, frozenset({b"7:0"})) == (read + written, written)
