"""What `wattpack pause`, `resume` and `history` make of what they are told and answered."""

from typing import Any

import pytest

from wattpack.client.control import told
from wattpack.commands.history import lines
from wattpack.commands.pause import seconds
from wire.errors import UserError

_MEANWHILE = "nothing is begun, what is under way is brought to its end"
ACTING = {"driver": "swarm", "dry_run": False, "lease_holder": None, "pause": None}


@pytest.mark.parametrize(("span", "meant"), [("90s", 90), ("30m", 1800), ("1h", 3600), ("1.5d", 129_600)])
def test_times_are_read_as_people_write_them(span: str, meant: float) -> None:
    assert seconds(span) == meant


@pytest.mark.parametrize("wrong", ["", "1", "h", "0s", "-1h", "1 week"])
def test_what_is_no_time_is_said(wrong: str) -> None:
    with pytest.raises(UserError, match="is no time: write it as 90s, 30m, 1h or 2d"):
        seconds(wrong)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "acting, by the driver swarm"),
        ({"lease_holder": "web1 (ab)"}, "not paused; another collector holds the lease: web1 (ab)"),
        (
            {"dry_run": True, "driver": "none"},
            "not paused; the driver is none: plans are kept on record, and nothing is done",
        ),
        (
            {"pause": {"since": 0.0, "until": None, "why": "an audit"}},
            f"paused until wattpack resume (an audit): {_MEANWHILE}",
        ),
        (
            {"pause": {"since": 0.0, "until": 3600.0, "why": ""}},
            f"paused until 1970-01-01 01:00:00 UTC: {_MEANWHILE}",
        ),
    ],
)
def test_how_acting_stands_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert told(ACTING | changes) == sentence


def test_a_decision_is_told_with_its_reasons_its_outcome_and_its_effect() -> None:
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
    assert list(lines([decision])) == [
        "1970-01-01 00:00:00  abcd  done     draps: alert (cpu on alpha)",
        "    move hog from alpha to beta: verified",
        "        so",
        "    left: memory on gamma stays short",
        "    based on an old state: the manager is away",
        "    healed after 12 s; alpha 97 -> 40 %; 100.0 -> 101.0 W in all",
    ]
