from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.act.drivers.engine.containers import current_limits, limit_changes, limit_of, restore_changes
from wire.resources import Quantities

HOST = 8 << 30
MB = 1 << 20
cores = st.floats(0.01, 8).map(lambda number: round(number, 2))
memory = st.integers(8, 4096).map(lambda number: number * MB)
hosts = st.one_of(
    st.just({}),
    st.builds(lambda each: {"NanoCpus": round(each * 1e9)}, cores),
    st.builds(lambda each: {"CpuPeriod": 50_000, "CpuQuota": round(each * 50_000)}, cores),
).flatmap(
    lambda cpu: st.one_of(
        st.just(cpu),
        st.builds(
            lambda each, swap: {**cpu, "Memory": each, "MemorySwap": each + swap}, memory, st.integers(0, MB)
        ),
        st.builds(lambda each: {**cpu, "Memory": each, "MemorySwap": -1}, memory),
    )
)


def updated(now: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """What an engine makes of an update: 0 leaves what is, and a way to say CPU excludes the other."""
    assert not (changes.get("NanoCpus") and now["CpuQuota"] > 0)
    assert not (changes.get("CpuQuota") and now["NanoCpus"])
    after = {**now, **{key: value for key, value in changes.items() if value}}
    assert after["MemorySwap"] == -1 or not after["MemorySwap"] or after["MemorySwap"] >= after["Memory"]
    return after


@given(host=hosts, cpu=cores, to=memory)
def test_limits_are_changed_and_restored(host: dict[str, Any], cpu: float, to: int) -> None:
    before = current_limits(host)
    after = updated(before, limit_changes(before, Quantities(cpu, to)))
    limit = limit_of(after)
    assert limit.cpu_cores == pytest.approx(cpu, abs=0.01)
    assert limit.memory_bytes == to
    assert limit_changes(after, Quantities(cpu, to)) == {}, "it is there already"
    restored = limit_of(updated(after, restore_changes(after, before, HOST)))
    asked = limit_of(before)
    assert restored.cpu_cores == (
        None if asked.cpu_cores is None else pytest.approx(asked.cpu_cores, abs=0.01)
    )
    assert restored.memory_bytes == (asked.memory_bytes or HOST), "no limit is all that the host has"


def test_unknown_values_are_left_unchanged() -> None:
    assert limit_changes(current_limits({"NanoCpus": 1}), Quantities(None, None, 5.0, 5.0)) == {}
    assert limit_changes(current_limits({"NanoCpus": 10**9}), Quantities(None, 64 * MB)) == {
        "Memory": 64 * MB,
        "MemorySwap": -1,
    }


def test_swap_stays_as_large_as_it_was() -> None:
    now = current_limits({"Memory": 64 * MB, "MemorySwap": 96 * MB})
    assert limit_changes(now, Quantities(None, 32 * MB)) == {"Memory": 32 * MB, "MemorySwap": 64 * MB}
