from dataclasses import fields
from pathlib import Path

import cramjam
import msgspec
import numpy as np
import pytest

from collector.decide.policies.draps import DrapsSettings, rebalance
from collector.snapshot.codec import pack, unpack
from collector.snapshot.windows import TaskWindows
from tests.collector.act.builders import FakeDriver, actor_of, staged, view


async def test_a_policy_decides_the_same_from_an_unpacked_snapshot(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.begin()
        snapshot = await (await actor_of(stage, FakeDriver(view_now=view()))).situation.snapshot()
    kept = unpack(pack(snapshot))
    settings = DrapsSettings(cool_down_seconds=0)
    assert rebalance(kept, settings) == rebalance(snapshot, settings)
    assert rebalance(kept, settings).actions
    for table in ("nodes", "tasks", "services"):
        before, after = getattr(snapshot, table), getattr(kept, table)
        for column in fields(before):
            one, other = getattr(before, column.name), getattr(after, column.name)
            if isinstance(one, np.ndarray):
                np.testing.assert_array_equal(one, other, strict=True)
            elif isinstance(one, TaskWindows):
                np.testing.assert_array_equal(one.amounts, other.amounts)
            elif column.name != "power":
                assert one == other
    np.testing.assert_array_equal(kept.nodes.watts, snapshot.nodes.watts)
    assert not kept.parts


def test_bytes_of_another_version_are_not_a_snapshot() -> None:
    with pytest.raises(msgspec.DecodeError):
        unpack(bytes(cramjam.zstd.compress(msgspec.msgpack.encode({"at": 1.0}))))
