"""The questions of an operator, the page, Prometheus and kube-scheduler: a process that asks them.

Each is asked when it is due, whether earlier ones are answered or not, and its latency counts from that time.
Kinds take turns in proportion to their rates. The event stream stays open, as the page keeps it.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlencode

import aiohttp
import msgspec

from bench.ingest.requests import CONTAINERS, node_name

PER_SECOND = 20.0
PAIR = "filter_and_prioritize"
PLAN = "plan"
_NODES_PER_POD = 1000
_STARTED = "started"
_TIMEOUT_SECONDS = 60.0
_HOUR, _DAY = 3600, 86_400
_BLOCK = 100
"""Rows that the page requests at once."""
_SEARCHES = ("", "", "shop", "service-7", "node-0000001", "registry.example")
_NODE_ORDERS = ("name", "state", "cpu", "memory", "watts", "containers")
_SERVICE_ORDERS = ("name", "containers", "nodes", "cpu", "memory", "watts")
_CONTAINER_ORDERS = ("name", "node", "cpu", "memory", "disk", "network", "watts")
_GROUPS = ("service", "node", "day", "container", "label:com.docker.compose.project")


class QuestionSettings(msgspec.Struct):
    """What to ask, and for how long."""

    address: str
    nodes: int
    projects: int
    seconds: float


class Answer(msgspec.Struct, array_like=True):
    """The outcome of one question."""

    kind: str
    due_at: float
    """Unix time."""
    seconds: float
    """From the time that the question was due to its complete answer."""
    failure: str = ""
    """Status and beginning of the answer, if it is not 200."""


class QuestionOutcome(msgspec.Struct):
    """The outcome of all questions."""

    answers: list[Answer]
    analysed_at: list[float]
    """Times of the analyses that answers were based on."""
    sized_at: list[float]
    """Times of the computations of sizes."""
    events: int
    """Number of lines of the event stream."""
    stream_failure: str


class _Analysed(msgspec.Struct):
    analyzed_at: float


class _Sized(msgspec.Struct):
    computed_at: float


class _Service(msgspec.Struct):
    name: str


class _Services(msgspec.Struct):
    services: list[_Service]


@dataclass(frozen=True, slots=True)
class _Question:
    path: str
    body: object = None


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    share: float
    """Of all questions, relative to the other kinds: about its questions per second."""
    make: Callable[["_Cluster"], _Question]


class _Cluster:
    """What questions can be about; chooses at random."""

    def __init__(self, nodes: int, projects: int) -> None:
        self._rng = random.Random(7)  # noqa: S311 - reproducible, not a secret
        self._nodes = nodes
        self._projects = projects
        self.analysed: list[str] = []
        """Names of services that an answer has listed: only those have a history."""

    def one_of(self, values: Sequence[str]) -> str:
        return self._rng.choice(values)

    def node(self) -> str:
        return node_name(self._rng.randrange(self._nodes))

    def nodes(self, count: int) -> list[str]:
        chosen = self._rng.sample(range(self._nodes), min(count, self._nodes))
        return [node_name(number) for number in chosen]

    def service(self) -> str:
        project = f"shop-{self._rng.randrange(self._projects)}" if self._projects > 1 else "shop"
        return f"{project}/service-{self._rng.randrange(12)}"

    def offset(self, rows: int) -> int:
        """Most people look at the top of a table."""
        return self._rng.choice((0, 0, self._rng.randrange(1 + rows // _BLOCK) * _BLOCK))

    def table(self, path: str, orders: Sequence[str], rows: int, **fixed: object) -> _Question:
        search = self.one_of(_SEARCHES)
        order = {"order": self.one_of(orders), "reverse": "true"}
        offset = 0 if search else self.offset(rows)
        return _get(path, **fixed, search=search, **order, offset=offset, limit=_BLOCK)

    def nodes_table(self) -> _Question:
        return self.table("/v1/nodes", _NODE_ORDERS, self._nodes, means="false")

    def services_table(self) -> _Question:
        return self.table("/v1/services", _SERVICE_ORDERS, 12 * self._projects, running="true")

    def containers_table(self) -> _Question:
        rows = CONTAINERS * self._nodes
        return self.table("/v1/containers", _CONTAINER_ORDERS, rows, means="false")

    def history(self) -> _Question:
        subject = self.one_of(("node", "service" if self.analysed else "node"))
        name = self.node() if subject == "node" else self.one_of(self.analysed)
        period = self._rng.choice(((6 * _HOUR, 900), (_HOUR, 15), (_DAY, 300)))
        return _get("/v1/history", **{subject: name}, **_period(*period))

    def placement(self) -> _Question:
        reserve = {"cpu_cores": self._rng.uniform(0.1, 2.0), "memory_bytes": self._rng.randrange(1 << 32)}
        return _Question("/v1/hints/placement", {"service": self.service(), "reserve": reserve})


def _get(path: str, **parameters: object) -> _Question:
    given = {name: each for name, each in parameters.items() if each != ""}
    return _Question(f"{path}?{urlencode(given)}" if given else path)


def _period(seconds: int, step_seconds: int | None = None) -> Mapping[str, object]:
    end = int(time.time())
    step = {} if step_seconds is None else {"step_seconds": step_seconds}
    return {"start": end - seconds, "end": end} | step


KINDS = (
    # The overview.
    _Kind("cluster", 2.0, lambda _: _get("/v1/cluster")),
    _Kind("alerts", 1.0, lambda _: _get("/v1/alerts", state="open", order="severity", limit=50)),
    _Kind("energy_by_day", 0.5, lambda _: _get("/v1/energy", by="day", **_period(30 * _DAY), limit=40)),
    _Kind("energy_of_top", 0.5, lambda _: _get("/v1/energy", by="service", **_period(_DAY), limit=10)),
    _Kind("decisions", 0.5, lambda _: _get("/v1/decisions", limit=5)),
    _Kind("control", 0.5, lambda _: _get("/v1/control")),
    _Kind("cluster_history", 1.0, lambda _: _get("/v1/cluster/history", **_period(_DAY, 300))),
    # The tables, with their sparklines, and the details of one row.
    _Kind("nodes", 2.0, _Cluster.nodes_table),
    _Kind("map", 0.5, lambda _: _get("/v1/cluster/map")),
    _Kind("services", 1.5, _Cluster.services_table),
    _Kind("containers", 2.7, _Cluster.containers_table),
    _Kind("history", 2.5, _Cluster.history),
    _Kind("node", 1.0, lambda cluster: _get("/v1/nodes", name=cluster.node())),
    _Kind("containers_of_node", 1.0, lambda cluster: _get("/v1/containers", node=cluster.node())),
    _Kind(
        "energy",
        0.5,
        lambda cluster: _get("/v1/energy", by=cluster.one_of(_GROUPS), **_period(7 * _DAY), limit=100),
    ),
    # Commands and Prometheus.
    _Kind("placement", 2.0, _Cluster.placement),
    _Kind("sizes", 0.2, lambda _: _get("/v1/sizes")),
    _Kind("metrics", 1 / 15, lambda _: _get("/metrics")),
    _Kind(PLAN, 1 / 60, lambda _: _Question("/v1/hints/rebalance", {})),
)


def in_turn(kinds: Sequence[_Kind]) -> Iterator[_Kind]:
    """Yield kinds for ever in proportion to their shares, as evenly as possible, the rare ones early too."""
    credits_of = {each.name: sum(other.share for other in kinds) / 2 for each in kinds}
    total = sum(each.share for each in kinds)
    while True:
        for each in kinds:
            credits_of[each.name] += each.share
        chosen = max(kinds, key=lambda each: credits_of[each.name])
        credits_of[chosen.name] -= total
        yield chosen


class _Asker:
    """Asks questions, and keeps the outcomes."""

    def __init__(self, http: aiohttp.ClientSession, settings: QuestionSettings) -> None:
        self._http = http
        self._settings = settings
        self._cluster = _Cluster(settings.nodes, settings.projects)
        self.answers: list[Answer] = []
        self.analysed_at: set[float] = set()
        self.sized_at: set[float] = set()
        self.events = 0
        self.stream_failure = ""

    async def ask_all(self) -> None:
        """Ask both kinds of clients' questions until the end, then wait for the answers."""
        listening = asyncio.create_task(self._listen())
        kinds = in_turn(KINDS)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ask_each(PER_SECOND, lambda: next(kinds)))
            group.create_task(self._ask_each(1.0, lambda: None))
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

    async def _ask_each(self, per_second: float, choose: Callable[[], _Kind | None]) -> None:
        """Ask at a fixed rate; no kind stands for a pod of kube-scheduler."""
        began, began_at = time.perf_counter(), time.time()
        async with asyncio.TaskGroup() as group:
            for number in range(round(per_second * self._settings.seconds)):
                due = number / per_second
                await asyncio.sleep(began + due - time.perf_counter())
                kind = choose()
                work = (
                    self._schedule(number, began_at + due)
                    if kind is None
                    else self._ask(kind, began_at + due)
                )
                group.create_task(work)

    async def _ask(self, kind: _Kind, due_at: float) -> None:
        question = kind.make(self._cluster)
        content, failure = await self._request(question)
        self.answers.append(Answer(kind.name, due_at, time.time() - due_at, failure))
        match kind.name if content else "":
            case "cluster":
                self.analysed_at.add(msgspec.json.decode(content, type=_Analysed).analyzed_at)
            case "sizes":
                self.sized_at.add(msgspec.json.decode(content, type=_Sized).computed_at)
            case "services":
                found = msgspec.json.decode(content, type=_Services).services
                self._cluster.analysed = [each.name for each in found] or self._cluster.analysed

    async def _schedule(self, number: int, due_at: float) -> None:
        """Filter and score nodes for a pod, one after the other, as kube-scheduler does."""
        body = {
            "Pod": _pod(number, self._cluster.service()),
            "NodeNames": self._cluster.nodes(_NODES_PER_POD),
        }
        failures, at = [], due_at
        for verb in ("filter", "prioritize"):
            _, failure = await self._request(_Question(f"/v1/kubernetes/{verb}", body))
            self.answers.append(Answer(verb, at, time.time() - at, failure))
            failures.append(failure)
            at = time.time()
        self.answers.append(Answer(PAIR, due_at, at - due_at, "; ".join(filter(None, failures))))

    async def _request(self, question: _Question) -> tuple[bytes, str]:
        body = None if question.body is None else msgspec.json.encode(question.body)
        method = "GET" if body is None else "POST"
        try:
            async with self._http.request(method, question.path, data=body) as response:
                content = await response.read()
                if response.status == HTTPStatus.OK:
                    return content, ""
                return b"", f"{question.path}: {response.status}: {content[:300].decode(errors='replace')}"
        except (aiohttp.ClientError, TimeoutError) as error:
            return b"", f"{question.path}: {error!r}"

    async def _listen(self) -> None:
        """Keep the event stream open."""
        try:
            async with self._http.get("/v1/stream", timeout=aiohttp.ClientTimeout()) as response:
                async for _ in response.content:
                    self.events += 1
                self.stream_failure = f"the stream ended with status {response.status}"
        except aiohttp.ClientError as error:
            self.stream_failure = repr(error)


def _pod(number: int, service: str) -> Mapping[str, object]:
    name = f"{service.replace('/', '-')}-{number}"
    resources = {"requests": {"cpu": "250m", "memory": "256Mi"}}
    container = {"name": "main", "image": "registry.example/shop:1", "resources": resources}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{number}", "labels": {"app": "shop"}},
        "spec": {"containers": [container]},
    }


async def _run(settings: QuestionSettings) -> QuestionOutcome:
    headers = {"Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    address = f"http://{settings.address}"
    async with aiohttp.ClientSession(address, headers=headers, timeout=timeout) as http:
        print(_STARTED, flush=True)
        asker = _Asker(http, settings)
        await asker.ask_all()
    return QuestionOutcome(
        asker.answers, sorted(asker.analysed_at), sorted(asker.sized_at), asker.events, asker.stream_failure
    )


if __name__ == "__main__":
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=QuestionSettings)
    sys.stdout.buffer.write(msgspec.msgpack.encode(asyncio.run(_run(given))))
