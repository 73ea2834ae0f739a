"""Durations for `wattpack control pause`, and the status and decisions of the control loop as text."""

from typing import Any

import pytest

from wattpack.commands.control import format_decisions, parse_duration, status_text
from wire.errors import UserError

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
        "healed_seconds": 12.4,
        "before": {"watts": 100.0, "used_ratios": {"alpha": 0.97}},
        "after": {"watts": 101.0, "used_ratios": {"alpha": 0.4}},
    }
    assert list(format_decisions([decision])) == [
        "1970-01-01 00:00:00  abcd  done     draps: alert (cpu on alpha)",
        "    move hog from alpha to beta: verified",
        "        so",
        "    not done: memory on gamma stays short",
        "    based on an old state: the manager is away",
        "    resolved after 12 s; alpha 97% -> 40%; 100.0 -> 101.0 W in total",
    ]
