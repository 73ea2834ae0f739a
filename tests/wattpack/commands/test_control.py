"""Durations for `wattpack control pause`, and the status and decisions of the control loop as text."""

import re
from typing import Any

import pytest

from wattpack.commands.control import format_decisions, format_effects, parse_duration, status_text
from wire.errors import UserError

VERDICT = {
    "after_seconds": 3600,
    "effect": "helped",
    "alerts": [
        {
            "node": "alpha",
            "resource": "cpu",
            "is_open": False,
            "closed_seconds": 12.4,
            "taken_ratio": 0.57,
            "used_before": 0.97,
            "used_after": 0.4,
            "alone_ratio": 0.6,
        }
    ],
    "goal": None,
    "promised_watts": 15.0,
    "saved_watts": 12.0,
    "error_watts": 3.5,
    "why_unknown": None,
    "short_seconds_before": 120,
    "short_seconds_after": 30,
}
_MEANWHILE = "Steps in progress finish, no new step starts."
ACTIVE = {"driver": "swarm", "dry_run": False, "lease_holder": None, "pause": None}


@pytest.mark.parametrize(("span", "meant"), [("90s", 90), ("30m", 1800), ("1h", 3600), ("1.5d", 129_600)])
def test_parse_duration(span: str, meant: float) -> None:
    assert parse_duration(span) == meant


@pytest.mark.parametrize("wrong", ["", "1", "h", "0s", "-1h", "1 week"])
def test_invalid_duration_is_a_user_error(wrong: str) -> None:
    with pytest.raises(UserError, match="is not a duration above 0: use a value such as 90s, 30m, 1h or 2d"):
        parse_duration(wrong)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "Active: the driver swarm carries out plans."),
        (
            {"lease_holder": "web1 (ab)"},
            "Standby: the collector web1 (ab) holds the lease and carries out plans.",
        ),
        (
            {"dry_run": True, "driver": "none"},
            "Dry run with the driver none: plans are recorded, not carried out.",
        ),
        (
            {"pause": {"since": 0.0, "until": None, "why": "an audit"}},
            f"Paused until 'wattpack control resume' (an audit). {_MEANWHILE}",
        ),
        (
            {"pause": {"since": 0.0, "until": 3600.0, "why": ""}},
            f"Paused until 1970-01-01 01:00:00 UTC. {_MEANWHILE}",
        ),
    ],
)
def test_control_status_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert status_text(ACTIVE | changes) == sentence


def test_decision_has_reasons_outcome_and_effect() -> None:
    move = {"kind": "move", "task": "a1", "name": "hog", "node": "alpha", "target": "beta", "reasons": ["so"]}
    decision = {
        "id": "abcd",
        "at": 0.0,
        "trigger": "alert",
        "policy": "draps",
        "outcome": "done",
        "alerts": [{"node": "alpha", "resource": "cpu"}],
        "left": ["memory on gamma stays short"],
        "trouble": "the manager is away",
        "steps": [{"action": move, "state": "verified", "why": None}],
        "verdicts": [VERDICT],
    }
    assert list(format_decisions([decision])) == [
        "1970-01-01 00:00:00  abcd  done     draps: alert (cpu on alpha)",
        "    move hog from alpha to beta: verified",
        "        so",
        "    not done: memory on gamma stays short",
        "    based on an old state: the manager is away",
        (
            "    after 1 h: helped; cpu alert of alpha ended after 12 s (60% of those left alone do), 97%"
            " -> 40% used, 57% of its use taken away; saved 12.0 W ±3.5, promised 15.0 W; 2.0 min short"
            " before, 0.5 after"
        ),
    ]


def test_effects_are_a_table_and_the_worst_decision_comes_first() -> None:
    decider = {
        "policy": "draps",
        "decisions": 3,
        "effects": {"helped": 1, "useless": 2},
        "moves": 4,
        "alerts": 3,
        "closed_alerts": 1,
        "measured": 1,
        "promised_joules": 3.6e6,
        "saved_joules": 1.8e6,
        "error_joules": 0.36e6,
        "short_seconds_before": 60,
        "short_seconds_after": 90,
        "caution": 1.3,
        "why": "1 of 3 answered alerts ended: at most 79% of the promise",
    }
    lines = list(format_effects({"deciders": [decider]}, [], 7))
    titles, row = (re.split(r" {2,}", line) for line in lines[:2])
    cells = dict(zip(titles, row, strict=True))
    assert cells["ALERTS ENDED"] == "1 of 3"
    assert (cells["kWh PROMISED"], cells["SAVED"], cells["±"]) == ("1.000", "0.500", "0.100")
    assert (cells["MIN SHORT BEFORE"], cells["AFTER"], cells["CAUTION"]) == ("1.0", "1.5", "1.3")
    assert lines[2] == (
        "draps must promise 1.3 times the required gain: 1 of 3 answered alerts ended: at most 79% of the"
        " promise"
    )
    assert lines[-1].startswith("No verdict yet")
    assert list(format_effects({"deciders": []}, [], 7)) == [
        "No decision was carried out in the last 7 days."
    ]
