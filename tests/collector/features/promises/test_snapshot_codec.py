import numpy as np

from collector.features.promises.snapshot import COLUMNS, TaskPromises
from collector.observe.registry import Registry
from collector.snapshot.codec import pack, unpack
from tests.collector.builders import START, container
from tests.collector.features.promises.tracking.builders import config, node, promised


def test_promises_are_kept_with_the_snapshot() -> None:
    registry = Registry(config())
    node(registry).start(START + 10, promised("a"), container("b"))
    snapshot = registry.tables.snapshot(START + 20)
    before, kept = snapshot.part(TaskPromises), unpack(pack(snapshot)).part(TaskPromises)
    assert before is not None
    assert kept is not None
    assert kept.promises == before.promises
    for column in COLUMNS:
        np.testing.assert_array_equal(getattr(before, column), getattr(kept, column), strict=True)
