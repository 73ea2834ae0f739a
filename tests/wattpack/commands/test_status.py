from typing import Any

from wattpack.commands.status import format_status

_CLUSTER: dict[str, Any] = {
    "nodes": {"up": 2},
    "containers": 3,
    "services": 3,
    "power": None,
    "cpu_cores": 4,
    "cpu_cores_used": 1.0,
    "memory_bytes": 100,
    "memory_bytes_used": 50,
    "problems": [],
    "at": 0.0,
    "analyzed_at": 0.0,
}
_CONTROL: dict[str, Any] = {
    "policy": "draps",
    "timer_policy": "",
    "dry_run": False,
    "driver": "swarm",
    "active": True,
    "pause": None,
    "brownout": [],
}


def test_stopped_optional_services_are_listed_with_the_reason() -> None:
    stopped = [
        {"service": name, "why": "web1 is short of memory", "waits_for": "no shortage for 5 of 20 s"}
        for name in ("ads", "search")
    ]
    lines = list(format_status(_CLUSTER, _CONTROL | {"brownout": stopped}, [], [], limit=1))
    at = lines.index("brownout    2 optional services stopped")
    assert lines[at + 1 : at + 3] == [
        "            ads: web1 is short of memory; it waits: no shortage for 5 of 20 s",
        "            ... and 1 more",
    ]


def test_without_any_nothing_is_listed() -> None:
    assert not any("brownout" in line for line in format_status(_CLUSTER, _CONTROL, [], []))


def test_a_pause_is_shown_with_what_ends_it() -> None:
    lines = list(format_status(_CLUSTER, _CONTROL | {"active": False, "pause": {"reason": ""}}, [], []))
    assert any(line.endswith("driver swarm: paused, 'wattpack control resume' ends it") for line in lines)


def test_evidence_that_names_its_subject_does_not_repeat_it() -> None:
    alerts = [
        {"subject": "web1", "evidence": "web1 is down: no report for 90 s"},
        {"subject": "web2", "evidence": "CPU at 100 %"},
    ]
    silent = [{"name": "web1", "state": "down", "last_seen_seconds_ago": 90.0}]
    lines = list(format_status(_CLUSTER, _CONTROL, alerts, silent))
    assert "            web1 is down: no report for 90 s" in lines
    assert "            web2: CPU at 100 %" in lines
    assert "silent      1 node" in lines
