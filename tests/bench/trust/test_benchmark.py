import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bench.trust import benchmark as trust
from bench.trust.adversary import HOSTILE, Adversary
from bench.trust.cluster import HonestNode, honest_report, node_name, report_rounds
from bench.trust.doors import Doors
from bench.trust.pair import PairOutcome
from collector.main import running
from tests.collector.builders import settings
from wire.messages import encode, parse_batch


def test_honest_reports_are_valid_and_the_same_in_every_run() -> None:
    reports = [honest_report(number, 3, 1000.0, 20.0) for number in range(5)]
    assert parse_batch(encode(reports)) == tuple(reports)
    assert reports == [honest_report(number, 3, 1000.0, 20.0) for number in range(5)]
    for report in reports:
        assert report.state is not None
        power = report.state.power
        assert power is not None
        parts = (
            power.idle_watts
            + power.system_watts
            + sum(each.power.watts for each in report.containers if each.power)
        )
        assert parts == pytest.approx(power.watts)


@pytest.mark.slow
async def test_a_collector_keeps_all_honest_reports_during_every_attack(tmp_path: Path) -> None:
    async with running(settings(tmp_path / "history.db")) as collector, aiohttp.ClientSession() as http:
        url = collector.address.url
        nodes = [HonestNode(number, "") for number in range(3)]
        adversary = Adversary(http, url, "", 0)
        attacks = [
            getattr(Adversary, name)
            for name in dir(Adversary)
            if not name.startswith("_") and name not in {"run", "post", "report"}
        ]
        statuses = [await attack(adversary) for attack in attacks]
        await report_rounds(nodes, http, url, collector.core.clock(), 1)
        assert len(statuses) >= 12
        assert all(status < 500 for status in statuses)
        assert {node.number: node.acknowledged for node in nodes} == {number: {1} for number in range(3)}
        assert {node_name(number) for number in range(3)} | {HOSTILE} <= set(collector.core.registry.names())


def outcome(**changes: object) -> trust._Outcome:
    same = trust._Outcome(
        answers={"node": 1},
        joules={node_name(0): 100.0 * 18},
        needs={"shop": 0.5},
        needs_after={"shop": 0.5},
        rss_mb=100.0,
        p99_seconds=0.02,
        restart_seconds=1.0,
    )
    for name, value in changes.items():
        setattr(same, name, value)
    return same


def failed(**changes: object) -> Iterator[str]:
    options = argparse.Namespace(nodes=1, seconds=20.0)
    hostile = outcome(attacks=1, **changes)
    return (figure.name for figure in trust._figures(options, outcome(), hostile) if not figure.ok)


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"refused": 1}, ["honest_refused"]),
        ({"lost": 1}, ["honest_lost"]),
        ({"answers": {"node": 2}}, ["answers_different"]),
        ({"answers": {}}, ["answers_compared", "answers_different"]),
        ({"needs": {"shop": 2.0}}, ["service_need_change"]),
        ({"needs_after": {"shop": 0.6}}, ["service_need_change_after_revocation"]),
        ({"services_after": {"fake"}}, ["services_different_after_revocation"]),
        ({"joules": {node_name(0): 1795.0}}, ["energy_difference", "energy_error"]),
        ({"rss_mb": 140.0}, ["rss_ratio"]),
        ({"p99_seconds": 0.05}, ["api_p99_ratio"]),
        ({"restart_seconds": 1.3}, ["restart_ratio"]),
        ({"survived": False}, ["survived"]),
    ],
)
def test_a_loss_of_honest_nodes_misses_a_bound(changes: dict[str, object], missed: list[str]) -> None:
    assert list(failed(**changes)) == missed


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"different": 1}, ["pair_answers_different"]),
        ({"most_acting": 2}, ["pair_acting_at_once"]),
        ({"acts": [("first", True)]}, ["pair_steps_of_second"]),
        ({"acts": [("second", True), ("first", True)]}, ["pair_steps_out_of_turn"]),
        ({"acts": [("first", True), ("second", False)]}, ["pair_steps_twice"]),
        ({"second_history_refused": False}, ["pair_history_shared"]),
        ({"refused": 1}, ["pair_honest_refused"]),
    ],
)
def test_two_collectors_that_differ_or_both_act_miss_a_bound(
    changes: dict[str, Any], missed: list[str]
) -> None:
    acts = changes.pop("acts", [("first", True), ("second", True)])
    pair = PairOutcome(
        answers=6,
        most_acting=1,
        acts=[{"by": by, "task": "c", "was_there": was_there} for by, was_there in acts],
        second_history_refused=True,
    )
    for name, value in changes.items():
        setattr(pair, name, value)
    assert [figure.name for figure in pair.figures() if not figure.ok] == missed


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"names_taken": 1}, ["names_taken"]),
        ({"revoked_accepted": 1}, ["revoked_accepted"]),
        ({"odd_names": 1}, ["odd_names_accepted"]),
        ({"honest_refused": 1}, ["doors_honest_refused"]),
        ({"tracebacks": 1, "log_bytes": 9000}, ["flood_tracebacks", "flood_log"]),
    ],
)
def test_an_attack_at_the_doors_that_succeeds_misses_a_bound(
    changes: dict[str, Any], missed: list[str]
) -> None:
    assert [figure.name for figure in Doors(attempts=1, **changes).figures() if not figure.ok] == missed
