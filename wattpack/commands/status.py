"""`wattpack status`: the state of the cluster, and what to do next."""

import argparse
import asyncio
from collections.abc import Callable, Iterator

from wattpack.client.collector import Collector, Json, add_list_options, more_lines, query_collector
from wattpack.output.text import bytes_text, count_text, percent_text, print_result, seconds_text

_MAX_LINES = 5
_STALE_ANALYSIS_SECONDS = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_list_options(parser, _MAX_LINES)


def run(arguments: argparse.Namespace) -> int:
    cluster, control, alerts, silent = query_collector(arguments, _fetch)
    found = {"cluster": cluster, "control": control, "alerts": alerts, "silent": silent}
    return print_result(arguments, found, format_status(cluster, control, alerts, silent, arguments.limit))


async def _fetch(collector: Collector) -> tuple[Json, Json, list[Json], list[Json]]:
    cluster, control, brownout, alerts, suspect, down = await asyncio.gather(
        collector.get("/v1/cluster"),
        collector.get("/v1/control"),
        collector.get_optional("/v1/brownout", {"stopped": []}),
        collector.get_all("/v1/alerts", state="open"),
        collector.get_all("/v1/nodes", state="suspect"),
        collector.get_all("/v1/nodes", state="down"),
    )
    return cluster, {**control, "brownout": brownout["stopped"]}, alerts, [*suspect, *down]


def format_status(
    cluster: Json, control: Json, alerts: list[Json], silent: list[Json], limit: int = _MAX_LINES
) -> Iterator[str]:
    """One screen of lines, with at most `limit` alerts and silent nodes."""
    nodes, power = cluster["nodes"], cluster["power"]
    states = ", ".join(f"{count} {state}" for state, count in nodes.items() if count) or "none yet"
    yield f"nodes       {states}"
    yield f"containers  {cluster['containers']} ({count_text(cluster['services'], 'service')})"
    if power is not None:
        containers = max(0.0, power["watts"] - power["idle_watts"] - power["system_watts"])
        yield (
            f"power       {power['watts']:.1f} W ±{power['error_watts']:.1f} at the wall"
            f" = idle {power['idle_watts']:.1f} + system {power['system_watts']:.1f}"
            f" + containers {containers:.1f}{_coverage(power['nodes'], nodes)}"
        )
    yield (
        f"CPU         {cluster['cpu_cores_used']:.2f} of {cluster['cpu_cores']:g} cores"
        f" ({_used_text(cluster, 'cpu_cores')})"
    )
    yield (
        f"memory      {bytes_text(cluster['memory_bytes_used'])} of {bytes_text(cluster['memory_bytes'])}"
        f" ({_used_text(cluster, 'memory_bytes')})"
    )
    policies = f"{control['policy'] or 'none'} on alerts, {control['timer_policy'] or 'none'} on a timer"
    yield f"policies    {policies}; {_driver_text(control)}"
    yield f"alerts      {f'{len(alerts)} open' if alerts else 'none'}"
    yield from _limited(limit, alerts, _alert_text)
    if stopped := control["brownout"]:
        yield f"brownout    {count_text(len(stopped), 'optional service')} stopped"
        yield from _limited(limit, stopped, _stopped_text)
    if silent:
        yield f"silent      {count_text(len(silent), 'node')}"
        yield from _limited(limit, silent, _silent_text)
    for problem in cluster["problems"]:
        yield f"problem     {problem}"
    yield ""
    yield f"next        {_next_step(cluster, alerts, silent)}"


def _alert_text(alert: Json) -> str:
    subject, evidence = str(alert["subject"]), str(alert["evidence"])
    return evidence if evidence.startswith(f"{subject} ") else f"{subject}: {evidence}"


def _stopped_text(stopped: Json) -> str:
    waits = f"; it waits: {stopped['waits_for']}" if stopped["waits_for"] != stopped["why"] else ""
    return f"{stopped['service']}: {stopped['why']}{waits}"


def _silent_text(node: Json) -> str:
    ago = seconds_text(node["last_seen_seconds_ago"])
    return f"{node['name']} is {node['state']}, last report {ago} ago"


def _driver_text(control: Json) -> str:
    if control["dry_run"]:
        return f"driver {control['driver']}: plans are recorded, not carried out"
    if control["pause"] is not None:
        return f"driver {control['driver']}: paused, 'wattpack control resume' ends it"
    return f"driver {control['driver']}: {'active' if control['active'] else 'not active'}"


def _coverage(reporting: int, nodes: Json) -> str:
    alive = nodes["up"] + nodes["suspect"]
    return "" if reporting == alive else f" (reported by {reporting} of {count_text(alive, 'node')})"


def _used_text(cluster: Json, what: str) -> str:
    return percent_text(cluster[f"{what}_used"] / cluster[what] if cluster[what] else None)


def _limited(limit: int, entries: list[Json], text: Callable[[Json], str]) -> Iterator[str]:
    shown = entries[:limit]
    yield from (f"            {line}" for line in (*map(text, shown), *more_lines(entries, shown)))


def _next_step(cluster: Json, alerts: list[Json], silent: list[Json]) -> str:
    if not sum(cluster["nodes"].values()):
        return "start an agent on each host: run 'wattpack agent' with collector.url set to this collector"
    if cluster["problems"]:
        return "fix the problem above; /readyz lists it until it is resolved"
    if silent:
        return f"check why {silent[0]['name']} is silent: run 'systemctl status wattpack-agent' there"
    if alerts:
        return "run 'wattpack alerts' for details, 'wattpack plan' for possible moves"
    if cluster["at"] - cluster["analyzed_at"] > _STALE_ANALYSIS_SECONDS:
        return "wait a minute: the last analysis is out of date, so services may be missing"
    return "all good; 'wattpack containers' shows current power, 'wattpack energy' energy over time"
