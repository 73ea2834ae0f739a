from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from tests.lab.stores.prometheus import Prometheus, prometheus, promtool_check_metrics
from tests.lab.waiting import eventually

pytestmark = pytest.mark.lab


@contextmanager
def endpoint(**gauges: float) -> Iterator[str]:
    """Something real to scrape; gives its "host:port"."""
    registry = CollectorRegistry()
    for name, value in gauges.items():
        Gauge(name, "A gauge.", registry=registry).set(value)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def storage(server: Prometheus) -> Path:
    flag = "--storage.tsdb.path="
    [argument] = [word for word in psutil.Process(server.pid).cmdline() if word.startswith(flag)]
    return Path(argument.removeprefix(flag))


def test_what_is_scraped_can_be_queried() -> None:
    with endpoint(node_watts=42.5) as target, prometheus({"node": target}) as server:
        server.wait_until_up("node")
        assert server.query("node_watts") == [
            ({"__name__": "node_watts", "job": "node", "instance": target}, 42.5)
        ]
        assert server.query("scalar(node_watts) * 2") == [({}, 85.0)]
        assert server.query("no_such_metric") == []
        [seen] = server.targets()
        assert (seen.job, seen.url, seen.is_up, seen.last_error) == (
            "node",
            f"http://{target}/metrics",
            True,
            "",
        )


def test_rules_are_evaluated() -> None:
    rules = {"groups": [{"name": "g", "rules": [{"record": "kilowatts", "expr": "sum(node_watts) / 1000"}]}]}
    with endpoint(node_watts=1500) as target, prometheus({"node": target}, rules=rules) as server:
        assert eventually(lambda: server.query("kilowatts"), 30) == [({"__name__": "kilowatts"}, 1.5)]


def test_target_that_does_not_answer_is_reported_with_its_reason() -> None:
    with prometheus({"gone": "127.0.0.1:1"}, job_settings={"metrics_path": "/elsewhere"}) as server:
        [gone] = eventually(lambda: [target for target in server.targets() if target.last_error], 30)
        assert (gone.job, gone.url, gone.is_up) == ("gone", "http://127.0.0.1:1/elsewhere", False)
        assert "connection refused" in gone.last_error
        with pytest.raises(TimeoutError) as caught:
            server.wait_until_up("gone", timeout_seconds=0)
        assert "connection refused" in str(caught.value.__cause__)


def test_invalid_query_is_refused_with_a_reason() -> None:
    with prometheus({}) as server, pytest.raises(ValueError, match="parse error"):
        server.query("sum(")


def test_a_start_that_fails_shows_the_log() -> None:
    with (
        pytest.raises(RuntimeError, match="instead of starting") as caught,
        prometheus({"node": "127.0.0.1:1"}, job_settings={"no_such_setting": 1}),
    ):
        pytest.fail("it started")
    assert "no_such_setting" in caught.value.__notes__[0]


def test_several_run_side_by_side_and_nothing_is_left() -> None:
    with ExitStack() as stack:
        targets = [stack.enter_context(endpoint(answer=number)) for number in range(3)]
        servers = [stack.enter_context(prometheus({"node": target})) for target in targets]
        assert len({server.url for server in servers}) == 3
        for number, server in enumerate(servers):
            server.wait_until_up("node")
            assert [value for _, value in server.query("answer")] == [number]
        folders = [storage(server).parent for server in servers]
        assert all(folder.is_dir() for folder in folders)
    assert not any(psutil.pid_exists(server.pid) for server in servers)
    assert not any(folder.exists() for folder in folders)


def test_nothing_is_left_after_a_failure_either() -> None:
    class BrokenTestError(Exception):
        pass

    seen: list[tuple[int, Path]] = []

    def broken_test() -> None:
        with prometheus({}) as server:
            seen.append((server.pid, storage(server).parent))
            raise BrokenTestError

    with pytest.raises(BrokenTestError) as caught:
        broken_test()
    [(pid, folder)] = seen
    assert not psutil.pid_exists(pid)
    assert not folder.exists()
    assert "Server is ready" in caught.value.__notes__[0]


def test_promtool_has_nothing_against_a_good_exposition() -> None:
    good = "# HELP energy_joules_total Energy.\n# TYPE energy_joules_total counter\nenergy_joules_total 1\n"
    assert promtool_check_metrics(good) == ""


@pytest.mark.parametrize(
    ("bad", "complaint"), [("energy_total 1\n", "energy_total no help text"), ("a b{ 1\n", "parsing error")]
)
def test_promtool_reports_invalid_input(bad: str, complaint: str) -> None:
    assert complaint in promtool_check_metrics(bad)
