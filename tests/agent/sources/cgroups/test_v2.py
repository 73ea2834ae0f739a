from hypothesis import given
from hypothesis import strategies as st

from agent.sources.cgroups import v2
from agent.sources.readings import CpuTotals, DiskTotals


def test_line_without_values_is_ignored() -> None:
    text = b"253:10 253:5 rbytes=10 wbytes=20 rios=1\n8:0 rbytes=1 wbytes=2 wios=7\n8:16 \n"
    assert v2.parse_disk(text, frozenset()) == DiskTotals(33, 8, written_bytes=22)
    assert v2.parse_disk(text, frozenset({b"253:5"})) == DiskTotals(3, 7, written_bytes=2)
    assert v2.parse_disk(text, frozenset({b"253:10"})) == DiskTotals(33, 8, written_bytes=22)


def test_a_container_that_has_done_no_io_has_done_zero_bytes() -> None:
    assert v2.parse_disk(b"", frozenset()) == DiskTotals(0, 0, written_bytes=0)
    assert v2.parse_disk(b"rubbish", frozenset()) == DiskTotals()


def test_throttling_is_unknown_without_the_cpu_controller() -> None:
    assert v2.parse_cpu(b"usage_usec 3000000\nuser_usec 1000000\nsystem_usec 2000000\n") == CpuTotals(3, 1, 2)


@given(st.binary(), st.binary())
def test_any_bytes_can_be_parsed(text: bytes, other: bytes) -> None:
    v2.parse_cpu(text)
    v2.parse_cpu(b"usage_usec " + text)
    v2.parse_cpu(b"usage_usec 1\nthrottled_usec " + text)
    v2.parse_memory(text, other, text, other)
    v2.parse_memory(None, b"anon " + text, None, b"oom_kill " + other)
    v2.parse_quota_cores(text)
    v2.parse_disk(text, frozenset())
    v2.parse_disk(b"8:0 rbytes=" + text, frozenset())


@given(st.lists(st.tuples(*[st.integers(0, 2**40)] * 4), max_size=5))
def test_everything_that_is_listed_is_added_up(devices: list[tuple[int, int, int, int]]) -> None:
    text = "".join(
        f"8:{number} rbytes={r} wbytes={w} rios={ri} wios={wi} dbytes=5 dios=6\n"
        for number, (r, w, ri, wi) in enumerate(devices)
    )
    assert v2.parse_disk(text.encode(), frozenset()) == DiskTotals(
        sum(r + w for r, w, _, _ in devices),
        sum(ri + wi for _, _, ri, wi in devices),
        written_bytes=sum(w for _, w, _, _ in devices),
    )
