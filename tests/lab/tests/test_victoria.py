from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.lab.stores.prometheus import prometheus
from tests.lab.stores.victoria import victoria_metrics
from tests.lab.tests.test_prometheus import endpoint
from tests.lab.waiting import eventually

pytestmark = pytest.mark.lab

MAY_2013_SECONDS = 1_368_000_000


def test_what_is_put_in_can_be_queried() -> None:
    with victoria_metrics() as store:
        store.import_prometheus('node_watts{node="a"} 42.5\nnode_watts{node="b"} 10\n')
        assert eventually(lambda: store.query("sort(node_watts)"), 30) == [
            ({"__name__": "node_watts", "node": "b"}, 10.0),
            ({"__name__": "node_watts", "node": "a"}, 42.5),
        ]


def test_old_traces_are_kept_and_give_their_quantiles() -> None:
    samples = [f"cores {number} {(MAY_2013_SECONDS + number) * 1000}" for number in range(101)]
    with victoria_metrics() as store:
        store.import_prometheus("\n".join(samples))
        [(_, p90)] = store.query(
            "quantile_over_time(0.9, cores[101s])", at_unix_seconds=MAY_2013_SECONDS + 100
        )
        assert p90 == pytest.approx(90)


def test_what_prometheus_scrapes_arrives_by_remote_write() -> None:
    with (
        endpoint(node_watts=42.5) as target,
        victoria_metrics() as store,
        prometheus({"node": target}, remote_write=store.remote_write_url) as server,
    ):
        server.wait_until_up("node")
        question = 'sum by (job, instance) (node_watts{job="node"})'
        assert eventually(lambda: store.query(question), 30) == server.query(question)
        assert server.query(question) == [({"job": "node", "instance": target}, 42.5)]


def test_invalid_query_is_refused_with_a_reason() -> None:
    with victoria_metrics() as store, pytest.raises(ValueError, match="unexpected token"):
        store.query("sum(")


def test_several_run_side_by_side_and_nothing_is_left() -> None:
    with ExitStack() as stack:
        stores = [stack.enter_context(victoria_metrics()) for _ in range(3)]
        for number, store in enumerate(stores):
            store.import_prometheus(f"answer {number} {MAY_2013_SECONDS * 1000}\n")
        answers = [store.query("answer", at_unix_seconds=MAY_2013_SECONDS) for store in stores]
        assert [value for [(_, value)] in answers] == [0, 1, 2]
        folders = [Path(psutil.Process(store.pid).cmdline()[1].partition("=")[2]).parent for store in stores]
        assert all(folder.is_dir() for folder in folders)
    assert not any(psutil.pid_exists(store.pid) for store in stores)
    assert not any(folder.exists() for folder in folders)
