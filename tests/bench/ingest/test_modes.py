"""The modes of the ingest benchmark: their options, what they send, and a tiny run of each."""

import argparse
from collections import Counter
from io import StringIO
from itertools import islice

import msgspec
import pytest

from bench.common.progress import Progress
from bench.ingest import benchmark, kills, steady
from bench.ingest.answers import difference
from bench.ingest.questions import KINDS, in_turn
from bench.ingest.requests import CONTAINERS, Request, make_templates, node_name
from collector.serve.ingest import parse_reports
from collector.serve.web.bodies import decompress
from wire.errors import UserError
from wire.messages import Report

NOW = 1_800_000_000.0


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    benchmark.add_arguments(parser)
    return parser.parse_args(arguments)


def progress() -> Progress:
    return Progress(StringIO())


def report_of(request: Request) -> Report:
    body = decompress(request.body, "gzip" if request.is_compressed else "identity", 1 << 24)
    (report,) = parse_reports(body)
    return report


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--nodes", "9"), "at least 10 nodes"),
        (("--steady", "0"), "minutes above zero"),
        (("--steady", "1", "--nodes", "0"), "at least one node"),
        (("--kills", "0"), "one kill"),
        (("--steady", "1", "--kills", "2"), "choose one of"),
        (("--profile", "--kills", "2"), "choose one of"),
        (("--steady", "1", "--nodes", "100000000"), "ulimit -n"),
    ],
)
def test_invalid_options_are_rejected(arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(UserError, match=why):
        benchmark.run(options(*arguments), progress())


def test_kills_has_a_default() -> None:
    assert options("--kills").kills == kills.TIMES
    assert options("--kills", "3").kills == 3
    assert options().kills is None


@pytest.mark.slow
def test_requests_from_templates_are_reports_of_their_nodes_with_the_time_of_now() -> None:
    templates = make_templates(nodes=12, turns=3, projects=4)
    joins = [report_of(each) for each in templates.joins(lambda: NOW)]
    assert [each.node for each in joins] == [node_name(number) for number in range(12)]
    assert {(each.sequence, each.at, each.events[0].at) for each in joins} == {(1, NOW, NOW)}
    assert len({state.id for each in joins for state in each.containers}) == 12 * CONTAINERS
    projects = {str(state.service).partition("/")[0] for each in joins for state in each.containers}
    assert projects == {"shop-0", "shop-1", "shop-2", "shop-3"}
    # They can continue anywhere, even after the last report of a model.
    for only_beacons in (False, True):
        requests = islice(templates.follows(25, lambda: NOW, only_beacons=only_beacons), 1200)
        follows = [report_of(each) for each in requests]
        assert [(each.node, each.sequence) for each in follows[:2]] == [(node_name(1), 4), (node_name(2), 4)]
        assert all(each.at == NOW for each in follows)
        assert any(each.heartbeat for each in follows) is not only_beacons


def test_kinds_of_questions_take_turns_in_proportion_to_their_rates() -> None:
    rounds = round(60 * sum(each.share for each in KINDS))
    asked = Counter(each.name for each in islice(in_turn(KINDS), rounds))
    for each in KINDS:
        assert asked[each.name] == pytest.approx(60 * each.share, abs=2)
        assert asked[each.name]


def test_a_difference_is_shown_where_it_is() -> None:
    assert difference([{"a": 1, "b": [1, 2]}], [{"a": 1, "b": [1, 3]}]) == "0: b: 1: 2 became 3"


@pytest.mark.slow
def test_a_small_cluster_is_measured_while_it_is_asked() -> None:
    result = steady.run(options("--steady", "0.1", "--nodes", "4"), progress())
    figures = {each.name: each.value for each in result.figures}
    assert figures["reports_refused"] == figures["questions_failed"] == figures["reports_not_answered"] == 0
    for name in ("report_p99", "question_p99", "filter_and_prioritize_p99", "resident_memory_of_worker"):
        assert figures[name]
    msgspec.json.encode(result.as_json())


@pytest.mark.slow
def test_a_killed_collector_and_its_worker_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "_CHANGE_SECONDS", 0.5)
    monkeypatch.setattr(kills, "_QUIET_SECONDS", 1.0)
    monkeypatch.setattr(kills, "_SETTINGS", "[analysis]\ninterval_seconds = 1.0\n")
    result = kills.run(options("--kills", "2", "--nodes", "5"), progress())
    figures = {each.name: each.value for each in result.figures}
    assert figures["missing"] == figures["twice"] == figures["refused"] == figures["plans_differ"] == 0
    assert figures["first_answer"]
    assert figures["complete"]
    msgspec.json.encode(result.as_json())
