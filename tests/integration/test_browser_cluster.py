"""Every view of the page in a real browser, against three real nodes with a real agent on each."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.swarm.cluster import Cluster, Collector, cluster
from tests.integration.test_browser import assert_clean, open_view
from tests.lab.browser import browsing
from tests.lab.engines.swarm import Swarm
from tests.lab.waiting import eventually
from wire.messages import MAX_NAME_LENGTH, MAX_TEXT_LENGTH

pytestmark = [pytest.mark.lab, pytest.mark.slow]

_SERVICE = "shop_web"
_TIMEOUT_SECONDS = 60.0
_LONG_NAME = "long-" + "a" * 10_000
_HOSTILE = '<img src=x onerror="window.broken = 1">\u202e\u05d0\u05d1\u05d2'
_HOSTILE_KEY = "<script>window.broken()</script>'\"\u202e\u05d0"
_LONG_TEXT = _HOSTILE + "x" * 10_000


@pytest.fixture(scope="module")
def nodes(swarm_nodes: Swarm) -> Iterator[Cluster]:
    with cluster(nodes=swarm_nodes) as three:
        yield three


@pytest.fixture
def collector(nodes: Cluster) -> Iterator[Collector]:
    """A collector with data for every view: three agents, a service, and its energy."""
    started = nodes.collector({"analysis": {"interval_seconds": 1}, "history": {"rollup_seconds": 5}})
    nodes.watch(started, {"reporting.heartbeat_seconds": 5})
    nodes.swarm.create_service(
        _SERVICE,
        *("sleep", "100000"),
        replicas=3,
        extra=("--limit-memory=16m", "--reserve-memory=8m", "--reserve-cpu=0.02"),
    )

    def is_complete() -> bool:
        services = {each["name"]: each for each in started.get("/v1/services")["services"]}
        energy = {each["key"] for each in started.get("/v1/energy?by=service")["accounts"]}
        return _SERVICE in services and services[_SERVICE]["containers"] == 3 and _SERVICE in energy

    eventually(is_complete, 3 * _TIMEOUT_SECONDS, every_seconds=1.0)
    yield started
    nodes.remove(_SERVICE)


@pytest.fixture
def hostile(nodes: Cluster) -> Iterator[str]:
    """The name of a container whose texts are markup, right-to-left and 10,000 characters long."""
    engine = nodes.swarm.nodes[1].engine
    engine.run(_LONG_NAME, "sleep", "100000", labels={_HOSTILE_KEY: "1", "long": _LONG_TEXT})
    yield _LONG_NAME[:MAX_NAME_LENGTH]
    engine.remove(_LONG_NAME)


async def test_every_view_shows_a_real_cluster(
    collector: Collector, nodes: Cluster, hostile: str, tmp_path: Path
) -> None:
    url = collector.url
    names = {node.name for node in nodes.swarm.nodes}
    container = collector.get(f"/v1/containers?service={_SERVICE}")["containers"][0]
    [long] = eventually(
        lambda: collector.get(f"/v1/containers?name={hostile}")["containers"], _TIMEOUT_SECONDS
    )
    assert long["labels"]["long"] == _LONG_TEXT[:MAX_TEXT_LENGTH]

    def has_rows(table: str, count: int) -> str:
        return f"document.querySelectorAll('[data-testid={table}-rows] tr[data-key]').length >= {count}"

    def has_text(part: str, text: str) -> str:
        return f"document.querySelector('[data-testid={part}]')?.textContent.includes({json.dumps(text)})"

    def has_line(chart: str) -> str:
        return f"document.querySelector('[data-testid={chart}] svg path[d^=M]')"

    def below(condition: str) -> str:
        """Check the end of the page too, because rows outside the window are no elements."""
        return f"(scrollTo(0, document.body.scrollHeight), {condition})"

    views = {
        "": (
            "document.querySelector('[data-testid=node-states] b')?.textContent === '3'",
            has_text("cluster-watts", "W"),
            has_line("cluster-chart"),
            has_text("energy-services", _SERVICE),
        ),
        "nodes": (has_rows("nodes", 3), *(has_text("nodes-rows", name) for name in names)),
        "services": (has_rows("services", 2), has_text("services-rows", _SERVICE)),
        "containers": (
            has_rows("containers", 7),
            *(has_text("containers-rows", name) for name in (container["name"], hostile)),
        ),
        "decisions": (
            "document.querySelector('[data-testid=pause]')",
            "document.body.innerText.includes('No decision was carried out in the last seven days.')",
        ),
        "energy": (has_text("energy-rows", _SERVICE),),
        f"nodes/{container['node']}": (
            has_text("detail-name", container["node"]),
            has_line("chart-watts"),
            below(has_text("containers-rows", container["name"])),
        ),
        f"services/{_SERVICE}": (
            has_text("detail-name", _SERVICE),
            below(has_rows("containers", 3)),
        ),
        f"containers/{container['id']}": (
            has_text("detail-name", container["name"]),
            has_text("detail-facts", container["node"]),
            has_text("detail-envelope", "reservation"),
        ),
        f"containers/{long['id']}": (
            has_text("detail-name", hostile),
            *(has_text("detail-facts", text) for text in (_HOSTILE, _HOSTILE_KEY)),
        ),
    }
    async with browsing(tmp_path / "profile") as tab:
        for width in (1400, 390):
            await tab.set_appearance(width=width)
            for place, conditions in views.items():
                await open_view(tab, url, place)
                for each in conditions:
                    await tab.until(each, _TIMEOUT_SECONDS)
                assert await tab.run("document.documentElement.scrollWidth <= innerWidth"), place
                assert await tab.run("window.broken") is None, place
        assert_clean(tab, url)
