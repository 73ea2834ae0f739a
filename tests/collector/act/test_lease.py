from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.act.lease import Lease, lease_path
from collector.config import CollectorConfig, ControlConfig, HistoryConfig, StoreConfig
from tests.collector.builders import START, Clock
from wire.errors import UserError


async def test_one_collector_holds_the_lease_until_it_expires_or_is_given_back(tmp_path: Path) -> None:
    clock = Clock()
    one, other = (Lease(tmp_path / "lease.db", name, 30.0, monotonic=clock) for name in ("one", "other"))
    assert (await one.take()).mine
    held = await other.take()
    assert (held.mine, held.holder) == (False, "one")
    clock.now += 29
    assert (await one.take()).mine
    assert not (await other.take()).mine
    clock.now += 29
    assert not (await other.take()).mine
    clock.now += 1
    assert not one.is_mine
    assert (await other.take()).mine
    assert not (await one.take()).mine
    await other.give_back()
    assert (await one.take()).mine


async def test_a_collector_that_cannot_read_the_lease_does_not_hold_it(tmp_path: Path) -> None:
    (tmp_path / "lease.db").write_bytes(b"no database at all, but long enough to be taken for one" * 20)
    held = await Lease(tmp_path / "lease.db", "one", 30.0).take()
    assert not held.mine
    assert "not a database" in held.holder


@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 2), st.floats(0, 20), st.booleans(), st.sampled_from([0.0, 3e7, -3e7, 3600.0])
        ),
        max_size=30,
    )
)
async def test_two_collectors_never_hold_the_lease_whatever_their_clocks_show(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, float, bool, float]]
) -> None:
    monotonic, walls = Clock(), [Clock(), Clock(START + 3600), Clock(0.0)]
    path = tmp_path_factory.mktemp("lease") / "lease.db"
    leases = [Lease(path, str(name), 30.0, clock=walls[name], monotonic=monotonic) for name in range(3)]
    for who, seconds, gives_back, jump in steps:
        monotonic.now += seconds
        walls[who].now += jump
        if gives_back:
            await leases[who].give_back()
        else:
            await leases[who].take()
        assert sum(lease.is_mine for lease in leases) <= 1


async def test_a_dead_holder_is_replaced_after_the_lease_whatever_its_clock_shows(tmp_path: Path) -> None:
    monotonic = Clock()
    ahead = Lease(tmp_path / "lease.db", "ahead", 30.0, clock=Clock(START + 1e9), monotonic=monotonic)
    other = Lease(tmp_path / "lease.db", "other", 30.0, clock=Clock(START), monotonic=monotonic)
    assert (await ahead.take()).mine
    for _ in range(3):
        assert not (await other.take()).mine
        monotonic.now += 10.0
    assert (await other.take()).before == "ahead"


@pytest.mark.parametrize("skew_seconds", [1e9, -3600.0, 0.0])
async def test_different_clocks_are_reported(tmp_path: Path, skew_seconds: float) -> None:
    monotonic, wall = Clock(), Clock(START)
    holder_wall = Clock(START + skew_seconds)
    holder = Lease(tmp_path / "lease.db", "holder", 30.0, clock=holder_wall, monotonic=monotonic)
    other = Lease(tmp_path / "lease.db", "other", 30.0, clock=wall, monotonic=monotonic)
    await holder.take()
    assert (await other.take()).skew_seconds is None  # it may be renewed long ago
    for clock in (monotonic, wall, holder_wall):
        clock.now += 10.0
    await holder.take()
    assert (await other.take()).skew_seconds == skew_seconds


def test_collectors_without_a_shared_disk_need_a_lease_file(tmp_path: Path) -> None:
    store = HistoryConfig(store="prometheus", path=str(tmp_path / "history.db"))
    url = StoreConfig(url="http://127.0.0.1:8428")
    with pytest.raises(UserError, match=r"set control\.lease_file"):
        lease_path(CollectorConfig(history=store, store=url))
    given_file = ControlConfig(lease_file=str(tmp_path / "shared.db"))
    assert lease_path(CollectorConfig(history=store, store=url, control=given_file)) == tmp_path / "shared.db"
    with pytest.raises(UserError, match=r"set history\.path to a file"):
        lease_path(CollectorConfig(history=HistoryConfig(path=":memory:")))
