"""The page in a real browser: credentials in its address, hostile names, a mesh, the keyboard."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import aiohttp
import msgspec
import pytest

from collector.config import AccessConfig, HttpConfig
from collector.features.network.mesh.mesh import Mesh
from collector.features.network.settings import MeshConfig
from collector.main import RunningCollector, running
from collector.runtime.event_stream import publish_events
from collector.serve.web.scopes import Scope
from collector.serve.web.tokens import edit_tokens, make_token
from tests.collector.builders import JSON, container, partial_report, report, settings
from tests.lab.browser import Tab, browsing
from tests.processes import wattpack
from wire.mesh import PeerResult
from wire.messages import Alert, Event, EventKind, Pressure, encode
from wire.resources import Resource

pytestmark = pytest.mark.lab

HOSTILE = [
    '<img src=x onerror="window.broken = 1">',
    '"><script>window.broken = 1</script>',
    "'; window.broken = 1; //",
    "a" * 253,
    "\u202eright-to-left\u202c \u05d0\u05d1\u05d2",
    "=1+1",
    "%2e%2e/?#&",
]
LONG_TEXT = "<b>" + "x" * 1000
"""Names have at most 253 characters, images and labels 1024: the collector rejects longer ones."""
ROWS = "document.querySelectorAll('[data-testid={}-rows] tr[data-key]').length"
VIEWS = ("", "nodes", "services", "containers", "decisions", "energy")


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[str]:
    up = wattpack(
        "up",
        "--data",
        str(tmp_path / "data"),
        *("--set", "collector.http.listen=127.0.0.1:0", "--set", "agent.http.listen=127.0.0.1:0"),
    )
    with up.running() as process:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"^  collector http://(\S+)", line):
                yield found[1]
                return


@asynccontextmanager
async def hostile_cluster() -> AsyncIterator[RunningCollector]:
    """A cluster in which every text is hostile."""
    async with running(settings()) as collector:
        core = collector.core
        for number, name in enumerate(HOSTILE):
            bad = container(name, image=LONG_TEXT, service=name, labels={name: name, "long": LONG_TEXT})
            busy = Alert(Resource.CPU, core.clock() - 60, LONG_TEXT, container=bad.id, name=name)
            sent = report(name, at=core.clock(), containers=[bad])
            core.registry.apply(msgspec.structs.replace(sent, alerts=(busy,)), core.clock())
            assert len(core.registry.names()) == number + 1
        await collector.analysis.analyse()
        await collector.analysis.detect()
        yield collector


async def open_view(tab: Tab, url: str, route: str) -> None:
    """Open a view and wait for its first data."""
    await tab.open("about:blank")
    await tab.open(f"{url}/#/{route}")
    await tab.until("document.body?.dataset.ready !== undefined")


def assert_clean(tab: Tab, url: str) -> None:
    assert tab.problems == []
    assert [each for each in tab.requests if not each.startswith((url, "about:", "blob:"))] == []


async def test_the_page_works_with_credentials_in_its_url(collector: str, tmp_path: Path) -> None:
    async with browsing(tmp_path / "profile") as tab:
        await tab.open(f"http://anyone:secret@{collector}/")
        await tab.until("document.querySelector('[data-testid=node-states] b')?.textContent === '1'", 60)
        await tab.run("location.hash = '#/nodes'")
        await tab.until("document.querySelector('[data-testid=nodes-rows] tr a')")
        # The definitions of the glossary are fetched too.
        await tab.run("document.querySelector('[data-term=source]').focus()")
        await tab.until("document.getElementById('tooltip').textContent.includes('watts')")
        assert tab.problems == []


async def test_energy_is_downloaded_as_the_collector_exports_it(tmp_path: Path) -> None:
    async with browsing(tmp_path / "profile") as tab, running(settings()) as collector:
        await open_view(tab, collector.address.url, "energy?by=node&span=30d")
        await tab.run("document.querySelector('[data-testid=energy-csv]').click()")
        await tab.until("document.body.textContent.includes('are downloaded')")
        [path] = [each for each in tab.requests if "format=csv" in each]
        assert "by=node" in path
        assert_clean(tab, collector.address.url)


async def test_the_network_is_a_heat_map_while_there_is_a_mesh(tmp_path: Path) -> None:
    seconds = {("a1", "a2"): 0.001, ("a1", "b1"): 0.1, ("a2", "b1"): 0.1}
    async with browsing(tmp_path / "profile") as tab:
        for is_enabled in (True, False):
            config = settings().with_section(MeshConfig(enabled=is_enabled))
            async with running(config) as collector:
                core = collector.core
                for node in ("a1", "a2", "b1"):
                    core.registry.apply(report(node), core.clock())
                for (node, peer), each in seconds.items():
                    core.registry.part(Mesh).put_read_results(
                        node, [PeerResult(peer, each, each, 5, 0)], core.clock()
                    )
                await core.registry.part(Mesh).update(core.clock())
                await open_view(tab, collector.address.url, "nodes")
                await tab.until("document.querySelectorAll('[data-testid=nodes-rows] tr').length === 3")
                if is_enabled:
                    await tab.until("document.body.textContent.includes('b1: 100 ms, measured')")
                text = await tab.run("document.body.textContent")
                assert ("Network (2 clusters of near nodes)" in text) is is_enabled


@pytest.mark.parametrize("width", [1400, 390])
async def test_hostile_names_change_nothing(tmp_path: Path, width: int) -> None:
    async with hostile_cluster() as collector, browsing(tmp_path / "profile") as tab:
        url = collector.address.url
        await tab.set_appearance(width=width)
        places = [*VIEWS]
        for name in HOSTILE:
            places += await tab.run(
                f"['nodes', 'services'].map((each) => `${{each}}/${{encodeURIComponent({name!r})}}`)"
            )
            places.append(await tab.run(f"`containers/${{encodeURIComponent({'id-of-' + name!r})}}`"))
        for place in places:
            await open_view(tab, url, place)
            assert await tab.run("window.broken") is None, place
            assert (
                await tab.run("document.querySelectorAll('main img, main script, main b > img').length") == 0
            )
            assert await tab.run("document.documentElement.scrollWidth <= innerWidth"), place
            assert await tab.run("document.documentElement.dir") == "", place
        await open_view(tab, url, "containers")
        links = "[...document.querySelectorAll('[data-testid=containers-rows] tr a bdi')]"
        listed = f"{links}.map((each) => each.textContent)"
        await tab.until(f"{listed}.length >= {len(HOSTILE)}")
        assert set(HOSTILE) <= set(await tab.run(listed))
        assert_clean(tab, url)


async def test_a_report_with_longer_texts_is_rejected_and_the_page_stays(tmp_path: Path) -> None:
    """Agents shorten texts, so no agent sends such a report."""
    long = "<b>" + "x" * 10_000
    reports = [report(long), report("alpha", containers=[container(long)])]
    reports += [report("alpha", containers=[container(image=long)])]
    reports += [report("alpha", containers=[container(labels={"long": long})])]
    async with running(settings()) as collector, browsing(tmp_path / "profile") as tab:
        core, url = collector.core, collector.address.url
        core.registry.apply(report("alpha", at=core.clock(), containers=[container()]), core.clock())
        async with aiohttp.ClientSession(url) as http:
            for each in reports:
                async with http.post("/v1/reports", data=encode((each,)), headers=JSON) as answer:
                    assert answer.status == HTTPStatus.BAD_REQUEST
                    assert "length <=" in (await answer.json())["detail"]
        for table in ("nodes", "containers"):
            await open_view(tab, url, table)
            await tab.until(
                f"document.querySelectorAll('[data-testid={table}-rows] tr[data-key]').length === 1"
            )
        assert_clean(tab, url)


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (1400, True), (390, False)])
async def test_accessibility_has_no_serious_finding(tmp_path: Path, width: int, *, dark: bool) -> None:
    rules = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    check = (
        "axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations"
        ".filter((each) => ['serious', 'critical'].includes(each.impact))"
        ".map((each) => [each.id, each.nodes.map((node) => node.html.slice(0, 200))]))"
    )
    async with hostile_cluster() as collector, browsing(tmp_path / "profile") as tab:
        await tab.set_appearance(width=width, dark=dark)
        name = quote(HOSTILE[0], safe="")
        for place in (*VIEWS, f"nodes/{name}", f"services/{name}", f"containers/id-of-{name}"):
            await open_view(tab, collector.address.url, place)
            await tab.run(f"{rules}; null")
            assert await tab.run(check) == [], place


async def test_tables_are_searched_and_sorted_by_keyboard(tmp_path: Path) -> None:
    async with running(settings()) as collector, browsing(tmp_path / "profile") as tab:
        core, url = collector.core, collector.address.url
        for number in range(300):
            core.registry.apply(
                report(f"node{number:03}", containers=[container(f"c{number}")]), core.clock()
            )
        await open_view(tab, url, "nodes")
        rows = "[...document.querySelectorAll('[data-testid=nodes-rows] tr')].map((each) => each.dataset.key)"
        await tab.until(f"{rows}.length > 5")
        assert len(await tab.run(rows)) < 100, "rows out of sight are elements"
        await tab.press("/", text="/")
        assert await tab.run("document.activeElement.dataset.testid") == "nodes-search"
        for key in "node12":
            await tab.type(key)
        await tab.until(f"{rows}.length === 10")
        assert "search=node12" in await tab.run("location.hash")
        await tab.press("Escape")
        await tab.until(f"{rows}.length > 10")
        await tab.run("document.querySelector('[data-testid=nodes-sort-name]').focus()")
        await tab.press("Enter", text="\r")
        await tab.until(f"{rows}[0] === 'node000'")
        await tab.press("Enter", text="\r")
        await tab.until(f"{rows}[0] === 'node299'")
        assert await tab.run("document.querySelectorAll('th[aria-sort=descending]').length") == 1
        await tab.run("scrollTo(0, document.body.scrollHeight / 2)")
        await tab.until(f"{rows}.includes('node150')")
        assert_clean(tab, url)


async def test_pausing_asks_for_a_token_and_keeps_it_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    now = time.time()
    (read, reader), (act, admin) = (make_token(kind, kind, now) for kind in (Scope.READ, Scope.ADMIN))
    with edit_tokens(path) as tokens:
        tokens += [read, act]
    config = msgspec.structs.replace(
        settings(), access=AccessConfig(tokens=str(path)), http=HttpConfig(listen="127.0.0.1:0")
    )
    async with running(config) as collector, browsing(tmp_path / "profile") as tab:
        host = collector.address.url.removeprefix("http://")
        await tab.open(f"http://me:{reader}@{host}/#/decisions")
        await tab.until("document.querySelector('[data-testid=pause]') && document.body.dataset.ready")
        await tab.run("document.querySelector('[data-testid=pause]').click()")
        await tab.until("document.getElementById('token-dialog').open")
        await tab.run("document.getElementById('token').focus()")
        await tab.type(admin)
        await tab.press("Enter", text="\r")
        await tab.until("!document.querySelector('[data-testid=resume]').closest('[hidden]')")
        kept = "JSON.stringify([location.href, {...localStorage}, {...sessionStorage}, document.cookie])"
        assert admin not in await tab.run(kept)
        assert not any(admin in each for each in tab.requests)


async def stop_clock(tab: Tab) -> None:
    """Stop the clock of the page, which sends slow requests less often: on a busy machine, all are slow."""
    await tab.call("Page.enable")
    await tab.call("Page.addScriptToEvaluateOnNewDocument", source="performance.now = () => 0")


async def test_an_open_page_follows_the_event_stream(tmp_path: Path) -> None:
    async with running(settings()) as collector, browsing(tmp_path / "profile") as tab:
        await stop_clock(tab)
        core, url = collector.core, collector.address.url
        core.registry.apply(report("alpha", at=core.clock()), core.clock())
        await open_view(tab, url, "")
        await tab.until("document.querySelector('[data-testid=node-states] b').textContent === '1'")
        first = "document.querySelector('[data-testid=alerts] li')"
        busy = Alert(Resource.MEMORY, core.clock(), "memory is used up")
        sent = msgspec.structs.replace(report("alpha", sequence=2, at=core.clock()), alerts=(busy,))
        core.registry.apply(sent, core.clock())
        # Alerts are requested every 15 s: only the stream is that fast.
        await tab.until(f"{first}?.textContent.includes('memory is used up')", 10)
        # Rows that did not change are the same elements.
        await tab.run(f"window.kept = {first}")
        core.registry.apply(report("beta", at=core.clock()), core.clock())
        await tab.until("document.querySelector('[data-testid=node-states] b').textContent === '2'", 10)
        assert await tab.run(f"window.kept === {first}")
        assert_clean(tab, url)


async def test_a_list_follows_events_that_never_pause(tmp_path: Path) -> None:
    async with running(settings()) as collector, browsing(tmp_path / "profile") as tab:
        await stop_clock(tab)
        core, url = collector.core, collector.address.url
        core.registry.apply(report("alpha", at=core.clock(), containers=[container()]), core.clock())
        await open_view(tab, url, "containers")
        await tab.until(f"{ROWS.format('containers')} === 1")

        async def start_containers() -> None:
            for number in range(1000):
                one = container(f"c{number}")
                event = Event(EventKind.STARTED, core.clock(), one.id, one.name)
                sent = partial_report(
                    "alpha", sequence=2 + number, at=core.clock(), containers=(one,), events=(event,)
                )
                core.registry.apply(sent, core.clock())
                publish_events(core.events, sent)
                await asyncio.sleep(0.1)

        starting = asyncio.create_task(start_containers())
        # The list is requested every 10 s: only events update it that fast.
        await tab.until(f"{ROWS.format('containers')} > 1", 8)
        starting.cancel()
        assert_clean(tab, url)


async def send_two(url: str, at: float, pressure: Pressure) -> None:
    """Send two reports of a node with a container, a minute apart."""
    async with aiohttp.ClientSession(url) as http:
        for number in (1, 2):
            sent = report(
                "alpha",
                sequence=number,
                at=at - 60 * (2 - number),
                containers=[container(pressure=pressure)],
                pressure=pressure,
            )
            async with http.post("/v1/reports", data=encode((sent,)), headers=JSON) as answer:
                assert answer.status == HTTPStatus.OK


@pytest.mark.parametrize("place", ["nodes/alpha", "containers/id-of-web"])
@pytest.mark.parametrize("pressure", [Pressure(cpu_ratio=0.1, disk_ratio=0.3), Pressure()])
async def test_pressure_is_a_graph_if_the_kernel_measures_it_and_else_a_sentence(
    tmp_path: Path, place: str, pressure: Pressure
) -> None:
    chart = "document.querySelector('[data-testid=chart-pressure]')"
    lines = f"{chart}.querySelectorAll('path.line').length"
    says_so = "document.body.textContent.includes('does not measure pressure')"
    async with running(settings()) as collector, browsing(tmp_path / "profile") as tab:
        url = collector.address.url
        await send_two(url, collector.core.clock(), pressure)
        await open_view(tab, url, place)
        if pressure == Pressure():
            await tab.until(says_so)
            assert await tab.run(f"{chart}.hidden")
        else:
            # The mean and the highest of CPU and disk: that of memory is unknown.
            await tab.until(f"{lines} === 4")
            assert not await tab.run(says_so)
        assert_clean(tab, url)


async def test_a_new_service_has_graphs_before_its_first_rollup(tmp_path: Path) -> None:
    async with running(settings()) as collector, browsing(tmp_path / "profile") as tab:
        url = collector.address.url
        await send_two(url, collector.core.clock(), Pressure())
        await open_view(tab, url, "services/shop")
        await tab.until("document.querySelector('[data-testid=chart-memory] path.line[d^=M]')")


async def test_a_single_value_is_a_dot(tmp_path: Path) -> None:
    async with running(settings()) as collector, browsing(tmp_path / "profile") as tab:
        core, url = collector.core, collector.address.url
        async with aiohttp.ClientSession(url) as http:
            # All of its window is in one step of the chart, which has 15 s.
            at = core.clock() // 15 * 15 - 5
            sent = report("alpha", at=at, containers=[container(window_seconds=1.0)])
            async with http.post("/v1/reports", data=encode((sent,)), headers=JSON) as answer:
                assert answer.status == HTTPStatus.OK
        await open_view(tab, url, "containers/id-of-web")
        path = "document.querySelector('[data-testid=chart-memory] svg path.line')"
        await tab.until(f"{path} && {path}.getBBox().height > 2")
        assert await tab.run(f"{path}.getBBox().width") > 2
        assert_clean(tab, url)
