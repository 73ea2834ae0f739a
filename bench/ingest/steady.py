"""A whole cluster at its normal rhythm, while everything else of a collector runs.

The collector is the real command with its defaults: it serves in one process and computes in another, and
both may use all cores. All nodes join; then each reports every 30 seconds. Meanwhile people, the page,
Prometheus and kube-scheduler ask, and the collector analyses, plans, sizes, compacts and rolls up as it
always does.
"""

import argparse
import os
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.ingest.load_generator import LoadOutcome, LoadSettings
from bench.ingest.processes import (
    cpu_seconds,
    history_mb,
    quantile_milliseconds,
    read_outcome,
    read_output,
    run_collector,
    run_generator,
    send,
    worker_of,
)
from bench.ingest.questions import (
    KINDS,
    PAIR,
    PER_SECOND,
    PLAN,
    Answer,
    QuestionOutcome,
    QuestionSettings,
)
from bench.ingest.requests import CONTAINERS, Templates, make_templates
from bench.ingest.usage import Usage, sampled
from wattpack.output.text import count_text
from wire.errors import UserError

NODES = 6000
MOST_REPORT_P99_MILLISECONDS = 30.0
MOST_QUESTION_P99_MILLISECONDS = 30.0
MOST_PAIR_P99_MILLISECONDS = 50.0
MOST_MILLISECONDS = 150.0
MOST_RESIDENT_MB = 2500.0

_REPORT_SECONDS = 30.0
"""Time between two reports of a node."""
_JOINS_PER_SECOND = 120.0
_PROJECTS = 40
"""Projects of the cluster, with twelve services each."""
_WORST = 5
_DESCRIPTORS = 500
"""Descriptors of a process besides one per node."""
_VERBS = ("filter", "prioritize")


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Measure the collector for some minutes."""
    nodes, seconds = NODES if options.nodes is None else options.nodes, 60 * options.steady
    if nodes < 1 or seconds <= 0:
        raise UserError("choose at least one node, and minutes above zero")
    _allow_connections(nodes)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measured = _measure(Path(folder), nodes, seconds, progress)
    settings = {
        "nodes": nodes,
        "containers_per_node": CONTAINERS,
        "services": 12 * _PROJECTS,
        "seconds": seconds,
        "cores": len(os.sched_getaffinity(0)),
        "load": "the generators of reports and questions share the machine with the collector",
        "reports_per_second": nodes / _REPORT_SECONDS,
        "questions_per_second": PER_SECOND,
        "pods_per_second": 1.0,
        "latency": "from the time a request was due to its complete answer, at the client",
        "collector": "the command with its defaults, apart from address and history; analysis, sizes, "
        "rollups and compaction run on their own timers; the timer of plans is off by default: plans are "
        "those that are asked for, once a minute",
        "worst": "of all requests but plans, which the worker computes; they have their own figures",
        **measured.settings(),
    }
    return Result(tuple(_figures(measured)), settings)


@dataclass(frozen=True, slots=True)
class Measured:
    """All measurements of a run."""

    nodes: int
    templates: Templates
    began_at: float
    joins: LoadOutcome
    reports: LoadOutcome
    questions: QuestionOutcome
    usage: Usage
    serving_seconds: float
    """CPU time of the process that serves."""
    worker_seconds: float
    database_mb: float
    generator_seconds: float
    """CPU time of the generators."""

    def of_kind(self) -> Mapping[str, Sequence[Answer]]:
        """The answers by kind."""
        found: defaultdict[str, list[Answer]] = defaultdict(list)
        for each in self.questions.answers:
            found[each.kind].append(each)
        return found

    def worst(self) -> list[Answer]:
        """The slowest of all requests but plans, reports included."""
        reports = [
            Answer(
                f"report: {self.templates.template(each.node, each.sequence - 2).kind}",
                each.due_at,
                each.seconds,
            )
            for each in self.reports.worst
        ]
        asked = (each for each in self.questions.answers if each.kind not in {PLAN, PAIR})
        return sorted((*reports, *asked), key=lambda each: each.seconds, reverse=True)[:_WORST]

    def failures(self) -> list[str]:
        """Why questions failed."""
        found = (f"{each.kind}: {each.failure}" for each in self.questions.answers if each.failure)
        stream = (self.questions.stream_failure,) if self.questions.stream_failure else ()
        return [*(each for each in found if not each.startswith(PAIR)), *stream]

    def settings(self) -> Mapping[str, object]:
        """What helps to find the cause of a high latency."""
        return {
            "worst_requests": [self._describe(each) for each in self.worst()],
            "analysed_after_seconds": [self._offset(each) for each in self.passes()],
            "sized_after_seconds": [self._offset(each) for each in self.sizings()],
            "planned": [self._describe(each) for each in self.of_kind().get(PLAN, ())],
            "failures": [*filter(None, (self.joins.refusal, self.reports.refusal)), *self.failures()][
                :_WORST
            ],
            "connections_closed_by_collector": self.joins.closed + self.reports.closed,
            "events_received": self.questions.events,
        }

    def passes(self) -> list[float]:
        """Times of the analyses that completed during the run."""
        return [each for each in self.questions.analysed_at if each > self.began_at]

    def sizings(self) -> list[float]:
        return [each for each in self.questions.sized_at if each > self.began_at]

    def _offset(self, at: float) -> float:
        return round(at - self.began_at, 1)

    def _describe(self, answer: Answer) -> str:
        """When a request was due, how long it took, and which questions were in progress then."""
        end_at = answer.due_at + answer.seconds
        busy = [
            f"{serving:.0%} and {worker:.0%} of a core"
            for at, serving, worker in self.usage.busy
            if at >= end_at
        ]
        others = sorted(
            (each.due_at, f"{each.kind} {1000 * each.seconds:.0f} ms")
            for each in self.questions.answers
            if each.kind != PAIR and each is not answer and _overlap(each, answer)
        )
        meanwhile = ", ".join(text for _, text in others[:_WORST]) or "nothing"
        text = f"after {self._offset(answer.due_at)} s: {answer.kind}, {1000 * answer.seconds:.0f} ms"
        used = busy[0] if busy else "unknown"
        return f"{text}; serving and computing: {used}; meanwhile, the oldest first: {meanwhile}"


def _overlap(one: Answer, other: Answer) -> bool:
    """Whether two requests were in progress at the same time."""
    return one.due_at < other.due_at + other.seconds and other.due_at < one.due_at + one.seconds


def _measure(folder: Path, nodes: int, seconds: float, progress: Progress) -> Measured:
    turns = 1 + round(seconds / _REPORT_SECONDS)
    progress.say("making the reports of the model nodes")
    templates, plan = make_templates(nodes, turns, _PROJECTS), folder / "templates"
    plan.write_bytes(msgspec.msgpack.encode(templates))
    with run_collector(folder) as (process, address), sampled(process) as usage:
        load = LoadSettings(
            plan=str(plan),
            address=address,
            joins=True,
            first=0,
            requests_per_second=_JOINS_PER_SECOND,
            seconds=seconds,
            from_templates=True,
        )
        joins = send(load)
        progress.say(f"{count_text(nodes, 'node')} joined in {joins.elapsed_seconds:.1f} s")
        load = msgspec.structs.replace(load, joins=False, requests_per_second=nodes / _REPORT_SECONDS)
        asking = QuestionSettings(address, nodes, _PROJECTS, seconds)
        worker = worker_of(process)
        before, worker_before, began_at = cpu_seconds(process), cpu_seconds(worker), time.time()
        generators_before = _children_seconds()
        with ExitStack() as stack:
            reporter = stack.enter_context(run_generator(load))
            asker = stack.enter_context(run_generator(asking, module="bench.ingest.questions"))
            progress.wait("reports and questions", seconds)
            reports = read_outcome(reporter)
            questions = msgspec.msgpack.decode(read_output(asker), type=QuestionOutcome)
        return Measured(
            nodes=nodes,
            templates=templates,
            began_at=began_at,
            joins=joins,
            reports=reports,
            questions=questions,
            usage=usage,
            serving_seconds=cpu_seconds(process) - before,
            worker_seconds=cpu_seconds(worker) - worker_before,
            database_mb=history_mb(folder),
            generator_seconds=_children_seconds() - generators_before,
        )


def _children_seconds() -> float:
    """CPU time of the children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _allow_connections(nodes: int) -> None:
    """Let the processes that this one starts have a connection per node."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < nodes + _DESCRIPTORS:
        raise UserError(
            f"{nodes} nodes need {nodes + _DESCRIPTORS} open files per process, and the limit is {most}: "
            "raise it with ulimit -n, or choose fewer --nodes"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _figures(measured: Measured) -> Iterator[Figure]:
    reports, usage, kinds = measured.reports, measured.usage, measured.of_kind()
    latencies = reports.latencies_seconds
    asked = [each.seconds for kind in KINDS if kind.name != PLAN for each in kinds.get(kind.name, ())]
    pairs = [each.seconds for each in kinds.get(PAIR, ())]
    worst = measured.worst()
    acknowledged = max(1, len(reports.acknowledged))
    containers = CONTAINERS * measured.nodes
    yield Figure(name="reports", value=len(latencies) / reports.elapsed_seconds, unit="per second")
    yield _latency("report_p50", latencies, 0.5)
    yield _latency("report_p99", latencies, 0.99, MOST_REPORT_P99_MILLISECONDS)
    yield _latency("report_max", latencies, 1.0)
    yield Figure(name="questions", value=len(asked), unit="questions, without plans and pods", at_least=1)
    yield _latency("question_p50", asked, 0.5)
    yield _latency("question_p99", asked, 0.99, MOST_QUESTION_P99_MILLISECONDS)
    yield _latency(f"{PAIR}_p99", pairs, 0.99, MOST_PAIR_P99_MILLISECONDS)
    yield _latency(f"{PAIR}_max", pairs, 1.0)
    yield Figure(
        name="worst",
        value=1000 * worst[0].seconds if worst else None,
        unit="ms, of all requests but plans",
        at_most=MOST_MILLISECONDS,
    )
    refused = measured.joins.rejected + reports.rejected
    yield Figure(name="reports_refused", value=refused, unit="reports, joins included", at_most=0)
    yield Figure(
        name="reports_not_answered",
        value=reports.sent - len(latencies),
        unit="reports",
        at_most=0,
    )
    yield Figure(name="questions_failed", value=len(measured.failures()), unit="questions", at_most=0)
    yield Figure(name="resident_memory_of_serving", value=usage.serving_mb, unit="MB, peak")
    yield Figure(name="resident_memory_of_worker", value=usage.worker_mb, unit="MB, peak")
    yield Figure(name="resident_memory", value=usage.total_mb, unit="MB, peak", at_most=MOST_RESIDENT_MB)
    yield Figure(
        name="memory_per_container",
        value=1000 * (usage.total_mb - usage.empty_mb) / containers,
        unit="kB, above that of an empty collector",
    )
    yield Figure(
        name="cost",
        value=1000 * measured.serving_seconds / acknowledged,
        unit="CPU milliseconds of the serving process per report, with all that it does meanwhile",
    )
    elapsed = reports.elapsed_seconds / 100
    yield Figure(name="busy_serving", value=measured.serving_seconds / elapsed, unit="% of one core")
    yield Figure(name="busy_worker", value=measured.worker_seconds / elapsed, unit="% of one core")
    yield Figure(
        name="busy_generators", value=measured.generator_seconds / elapsed, unit="% of one core, beside these"
    )
    yield Figure(name="passes", value=len(measured.passes()), unit="analyses that completed")
    yield Figure(name="sizings", value=len(measured.sizings()), unit="computations of sizes")
    yield Figure(name="history", value=measured.database_mb, unit="MB")
    for name in (*(kind.name for kind in KINDS), *_VERBS):
        yield _latency(f"{name}_p99", [each.seconds for each in kinds.get(name, ())], 0.99)
        yield _latency(f"{name}_max", [each.seconds for each in kinds.get(name, ())], 1.0)


def _latency(name: str, seconds: Sequence[float], ratio: float, at_most: float | None = None) -> Figure:
    return Figure(name=name, value=quantile_milliseconds(seconds, ratio), unit="ms", at_most=at_most)
