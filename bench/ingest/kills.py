"""Kills of a collector and of its worker under load, and what is answered afterwards.

All nodes report all the time. Before a kill whose answers are compared, they report changes for a while, and
then only that they are up: the cluster does not change, so plans, hints and envelopes must be the same after
the kill. Every other kill of the collector happens while changes are reported; then only its reports, its
lists and the completeness of envelopes are checked. Reports that were not acknowledged are sent again.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psutil

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.ingest.answers import (
    POLICIES,
    POLL_SECONDS,
    SERVICES,
    Json,
    ask,
    await_analysis,
    await_answer,
    difference,
    envelopes_of,
    hints_of,
    plans_of,
    rows_of,
)
from bench.ingest.load_generator import LoadOutcome, LoadSettings
from bench.ingest.processes import (
    count_stored,
    read_outcome,
    run_collector,
    run_generator,
    send,
    worker_of,
)
from bench.ingest.requests import CONTAINERS, make_templates, node_name
from collector.observe.windows import BUCKET_SECONDS
from wattpack.output.text import count_text
from wire.errors import UserError

NODES, TIMES = 300, 20
MOST_FIRST_SECONDS = 3.0
MOST_COMPLETE_SECONDS = 10.0

_REPORTS_PER_SECOND = 200.0
_JOINS_PER_SECOND = 60.0
_PROJECTS = 10
_CHANGE_SECONDS = 5.0
"""Changes are reported for this long before each kill."""
_QUIET_SECONDS = 15.0
"""Nodes then report for this long only that they are up, while answers are compared."""
_ANALYSIS_SECONDS = 2.0
"""Instead of a minute: the answers before a kill are those after an analysis of the last changes."""
_SETTINGS = f"[analysis]\ninterval_seconds = {_ANALYSIS_SECONDS}\n"
_GIVE_UP_SECONDS = 20.0
"""Nodes do not report during a start; after a longer one they are suspects, rightly."""
_SHOWN = 5


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Kill in turn the worker and the collector, then check the history."""
    nodes = NODES if options.nodes is None else options.nodes
    if nodes < 1 or options.kills < 1:
        raise UserError("choose at least one node and one kill")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        kills = _Kills(Path(folder), nodes, options.kills, progress)
        kills.run()
        figures = tuple(_figures(kills))
    settings = {
        "nodes": nodes,
        "containers_per_node": CONTAINERS,
        "kills": options.kills,
        "reports_per_second": _REPORTS_PER_SECOND,
        "change_seconds": _CHANGE_SECONDS,
        "quiet_seconds": _QUIET_SECONDS,
        "analysis_seconds": _ANALYSIS_SECONDS,
        "compared": "answers before and after a kill, while nodes report only that they are up; every other "
        "kill of the collector happens while nodes report changes",
        "plans": f"{kills.steps} steps in the last plans of {' and '.join(POLICIES)}",
        "hints": f"{kills.ranked} nodes in the last hints for {SERVICES} services",
        "restarts": [each.described() for each in kills.restarts],
        "wrong": [
            f"restart {number}: {each}"
            for number, restart in enumerate(kills.restarts, 1)
            for each in list(dict.fromkeys(restart.wrong))[-_SHOWN:]
        ],
        "refused": kills.refusal,
        "different": kills.different[:_SHOWN],
    }
    return Result(figures, settings)


@dataclass(frozen=True, slots=True)
class Answers:
    """What a collector answers about a cluster, without times."""

    plans: Json
    hints: Json
    envelopes: Mapping[tuple[str, str], Json]
    """By node and id of the container."""


@dataclass(slots=True)
class Restart:
    """How a collector came back."""

    is_compared: bool
    first_seconds: float | None = None
    """From its start to the first right lists of nodes and containers."""
    complete_seconds: float | None = None
    """From its start until it was ready, and everything was answered as before."""
    refused: int = 0
    """Hints that it refused meanwhile."""
    wrong: list[str] = field(default_factory=list)

    def described(self) -> str:
        kind = "compared" if self.is_compared else "during changes"
        times = (
            f"first after {_seconds(self.first_seconds)}, complete after {_seconds(self.complete_seconds)}"
        )
        return f"{kind}: {times}, {self.refused} hints refused, {len(self.wrong)} answers wrong"


class _Kills:
    """A cluster, its reports, and the collectors that receive them one after the other."""

    def __init__(self, folder: Path, nodes: int, times: int, progress: Progress) -> None:
        self._folder = folder
        self._nodes = nodes
        self._times = times
        self._progress = progress
        self._rng = random.Random()  # noqa: S311 - any moment will do
        self._plan = folder / "templates"
        self._containers: frozenset[tuple[str, str]] = frozenset()
        self._acknowledged: set[tuple[int, int]] = set()
        self._next = 0
        """Number of the first request after the joins that was not acknowledged."""
        self.refused = 0
        self.refusal = ""
        self.restarts: list[Restart] = []
        self.recoveries: list[float] = []
        """Seconds from a kill of the worker to the next plan."""
        self.different: list[str] = []
        """Plans and hints that differ after a kill of the worker."""
        self.steps = self.ranked = 0
        self.missing = self.twice = 0

    @property
    def acknowledged(self) -> int:
        return len(self._acknowledged)

    def run(self) -> None:
        """Kill the worker and the collector in turn."""
        self._progress.say("making the reports of the model nodes")
        per_kill = (_CHANGE_SECONDS + _QUIET_SECONDS) * _REPORTS_PER_SECOND
        templates = make_templates(self._nodes, 1 + round(self._times * per_kill / self._nodes), _PROJECTS)
        self._plan.write_bytes(msgspec.msgpack.encode(templates))
        before: Answers | None = None
        with self._progress.track("kills", self._times) as show:
            for number in range(0, self._times + 1, 2):
                began = time.monotonic()
                with run_collector(self._folder, settings=_SETTINGS) as (process, address):
                    if number:
                        self.restarts.append(self._restart(address, began, before))
                    else:
                        self._join(address)
                    if number < self._times:
                        self._kill_worker(process, address)
                        show(number + 1)
                    if number + 1 < self._times:
                        before = self._kill_collector(process, address, is_compared=number % 4 == 0)
                        show(number + 2)
        stored = count_stored(self._folder)
        keys = ((node_name(node), sequence) for node, sequence in self._acknowledged)
        self.missing = sum(key not in stored for key in keys)
        self.twice = sum(times > 1 for times in stored.values())

    # --- Load -------------------------------------------------------------------------------

    def _join(self, address: str) -> None:
        joins = send(self._load(address, 0.0, joins=True))
        self._acknowledged.update(joins.acknowledged)
        self.refused += joins.rejected
        self.refusal = joins.refusal
        self._progress.say(f"{count_text(self._nodes, 'node')} joined in {joins.elapsed_seconds:.1f} s")
        self._containers = await_answer(lambda: self._all_containers(address), "all containers are listed")

    def _all_containers(self, address: str) -> frozenset[tuple[str, str]]:
        found = frozenset(envelopes_of(address))
        return found if len(found) == self._nodes * CONTAINERS else frozenset()

    @contextmanager
    def _reporting(self, address: str, seconds: float, *, only_beacons: bool = False) -> Iterator[None]:
        """Let all nodes report while the block runs: until the time is over or the collector is killed."""
        with run_generator(self._load(address, seconds, only_beacons=only_beacons)) as generator:
            yield
            self._count(read_outcome(generator))

    def _load(
        self, address: str, seconds: float, *, joins: bool = False, only_beacons: bool = False
    ) -> LoadSettings:
        return LoadSettings(
            plan=str(self._plan),
            address=address,
            joins=joins,
            first=self._next,
            requests_per_second=_JOINS_PER_SECOND if joins else _REPORTS_PER_SECOND,
            seconds=seconds,
            from_templates=True,
            only_beacons=only_beacons,
        )

    def _count(self, outcome: LoadOutcome) -> None:
        self.refused += outcome.rejected
        self.refusal = self.refusal or outcome.refusal
        self._acknowledged.update(outcome.acknowledged)
        sent = range(self._next, self._next + outcome.sent)
        self._next = next((each for each in sent if not self._is_acknowledged(each)), sent.stop)

    def _is_acknowledged(self, number: int) -> bool:
        turn, node = divmod(number, self._nodes)
        return (node, turn + 2) in self._acknowledged

    # --- Kills ------------------------------------------------------------------------------

    def _kill_worker(self, process: psutil.Popen, address: str) -> None:
        """Kill the worker while it makes a plan, and compare plans."""
        _await_window()
        with self._reporting(address, _CHANGE_SECONDS):
            pass
        with self._reporting(address, _QUIET_SECONDS, only_beacons=True), ThreadPoolExecutor(1) as pool:
            before, worker = self._settled(address), worker_of(process)
            asked = pool.submit(plans_of, address)
            time.sleep(self._rng.uniform(0.0, 0.05))
            if worker is not None:
                worker.kill()
            began = time.monotonic()
            if (plans := asked.result()) is not None:
                self._compare("plans during a kill", before.plans, plans)
            plans = await_answer(lambda: plans_of(address), "there is a plan")
            self._compare("plans after a kill", before.plans, plans)
            self.recoveries.append(time.monotonic() - began)
            # What the worker kept is lost: its next analysis covers all containers.
            await_analysis(address, time.time())
            self._compare("plans after the next analysis", before.plans, plans_of(address))
            self._compare("hints after the next analysis", before.hints, hints_of(address))

    def _compare(self, what: str, before: Json, after: Json) -> None:
        if before != after:
            self.different.append(f"{what}: {difference(before, after)}")

    def _kill_collector(self, process: psutil.Popen, address: str, *, is_compared: bool) -> Answers | None:
        """Kill the collector at a random moment; returns its last answers if they can be compared."""
        before = None
        if is_compared:
            _await_window()
            with self._reporting(address, _CHANGE_SECONDS):
                pass
        seconds = _QUIET_SECONDS if is_compared else 2 * _CHANGE_SECONDS
        with self._reporting(address, seconds, only_beacons=is_compared):
            if is_compared:
                before = self._settled(address)
                time.sleep(self._rng.uniform(0.0, 0.5))
            else:
                time.sleep(self._rng.uniform(0.5, 0.9) * seconds)
            process.kill()
            process.wait()
        return before

    def _settled(self, address: str) -> Answers:
        """Return the answers after an analysis of all that was reported."""
        await_analysis(address, time.time())
        plans, hints = plans_of(address), hints_of(address)
        if plans is None or hints is None:
            raise UserError("the collector refuses plans or hints although all is well")
        self.steps = sum(len(each["actions"]) for each in plans)
        self.ranked = sum(len(each["nodes"]) for each in hints)
        return Answers(plans, hints, envelopes_of(address))

    def _restart(self, address: str, began: float, before: Answers | None) -> Restart:
        """Ask a collector that has just been started until it answers as before."""
        restart = Restart(before is not None)
        while restart.complete_seconds is None and time.monotonic() - began < _GIVE_UP_SECONDS:
            problem = self._check_lists(address)
            if problem:
                restart.wrong.append(problem)
            elif problem is not None and restart.first_seconds is None:
                restart.first_seconds = time.monotonic() - began
            is_ready = ask(address, "/readyz") is not None
            hints = hints_of(address)
            restart.refused += hints is None
            if hints is not None and before is not None and hints != before.hints:
                restart.wrong.append(f"hints: {difference(before.hints, hints)}")
            elif is_ready and hints is not None and self._is_complete(address, before):
                restart.complete_seconds = time.monotonic() - began
            time.sleep(POLL_SECONDS)
        if restart.complete_seconds is None and before is not None:
            changed = difference(dict(before.envelopes), dict(envelopes_of(address)))
            restart.wrong.append(f"not complete; envelopes: {changed}")
        return restart

    def _check_lists(self, address: str) -> str | None:
        """What is wrong with the lists of nodes and containers: nothing, or None if they are refused."""
        nodes = rows_of(address, "/v1/nodes?means=false", "nodes")
        rows = ask(address, "/v1/containers?means=false&order=name&limit=100")
        if nodes is None or rows is None:
            return None
        up = {each["name"] for each in nodes if each["state"] == "up"}
        if up != {node_name(number) for number in range(self._nodes)}:
            return f"{len(up)} of {len(nodes)} listed nodes are up, of {self._nodes}"
        if rows["matching"] != len(self._containers):
            return f"{rows['matching']} of {len(self._containers)} containers are listed"
        unknown = [
            each["id"] for each in rows["containers"] if (each["node"], each["id"]) not in self._containers
        ]
        return f"unknown containers are listed: {unknown[:1]}" if unknown else ""

    def _is_complete(self, address: str, before: Answers | None) -> bool:
        envelopes = envelopes_of(address)
        if before is not None:
            return envelopes == before.envelopes
        known = {key for key, each in envelopes.items() if each["p90"].get("cpu_cores") is not None}
        return known == self._containers


def _await_window() -> None:
    """Wait until no window of usage closes before the answers are compared: that changes hints, rightly."""
    left_seconds = BUCKET_SECONDS - time.time() % BUCKET_SECONDS
    if left_seconds < _CHANGE_SECONDS + _QUIET_SECONDS + MOST_COMPLETE_SECONDS:
        time.sleep(left_seconds)


def _figures(kills: _Kills) -> Iterator[Figure]:
    restarts = kills.restarts
    first, complete = (
        [each.first_seconds for each in restarts],
        [each.complete_seconds for each in restarts],
    )
    yield Figure(name="kills_of_worker", value=len(kills.recoveries), unit="kills")
    yield Figure(name="kills_of_collector", value=len(restarts), unit="kills")
    yield Figure(name="acknowledged", value=kills.acknowledged, unit="reports", at_least=1)
    yield Figure(name="refused", value=kills.refused, unit="reports", at_most=0)
    yield Figure(name="missing", value=kills.missing, unit="reports", at_most=0)
    yield Figure(name="twice", value=kills.twice, unit="reports", at_most=0)
    yield Figure(name="plans_differ", value=len(kills.different), unit="plans and hints", at_most=0)
    yield Figure(name="plan_after_kill", value=max(kills.recoveries, default=None), unit="s, the longest")
    if restarts:
        unit = "s from the start, the longest"
        yield Figure(name="first_answer", value=_worst(first), unit=unit, at_most=MOST_FIRST_SECONDS)
        yield Figure(name="complete", value=_worst(complete), unit=unit, at_most=MOST_COMPLETE_SECONDS)
        wrong = sum(len(each.wrong) for each in restarts)
        yield Figure(name="wrong_answers", value=wrong, unit="answers after a start", at_most=0)
        refused = sum(each.refused for each in restarts)
        yield Figure(name="hints_refused", value=refused, unit="questions during starts")


def _seconds(value: float | None) -> str:
    return "no time" if value is None else f"{value:.2f} s"


def _worst(values: list[float | None]) -> float | None:
    """The longest time; None if one was not reached."""
    known = [each for each in values if each is not None]
    return max(known) if len(known) == len(values) else None
