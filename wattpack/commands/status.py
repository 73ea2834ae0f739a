"""`wattpack status`: the cluster on one screen, and what to do next."""

import argparse
import asyncio
from collections.abc import Iterator

from wattpack.client.collector import (
    Collector,
    Json,
    add_collector_options,
    from_collector,
    json_text,
    percent_text,
    seconds_text,
)
from wattpack.output.report import bytes_text

_FEW = 5
_LONG_SINCE_SECONDS = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_collector_options(parser)


def run(arguments: argparse.Namespace) -> int:
    cluster, alerts, silent = from_collector(arguments, _ask)
    if arguments.json:
        print(json_text({"cluster": cluster, "alerts": alerts, "silent": silent}))
    else:
        print("\n".join(show(cluster, alerts, silent)))
    return 0


async def _ask(collector: Collector) -> tuple[Json, list[Json], list[Json]]:
    cluster, alerts, suspect, down = await asyncio.gather(
        collector.ask("/v1/cluster"),
        collector.ask_all("/v1/alerts", state="open"),
        collector.ask_all("/v1/nodes", state="suspect"),
        collector.ask_all("/v1/nodes", state="down"),
    )
    return cluster, alerts, [*suspect, *down]


def show(cluster: Json, alerts: list[Json], silent: list[Json]) -> Iterator[str]:
    """A screen's worth of lines."""
    nodes, power = cluster["nodes"], cluster["power"]
    states = ", ".join(f"{count} {state}" for state, count in nodes.items() if count) or "none yet"
    yield f"nodes       {states}"
    yield f"containers  {cluster['containers']}, of {cluster['services']} services that are understood"
    if power is not None:
        containers = max(0.0, power["watts"] - power["idle_watts"] - power["system_watts"])
        yield (
            f"power       {power['watts']:.1f} W ±{power['error_watts']:.1f}"
            f" = idle {power['idle_watts']:.1f} + system {power['system_watts']:.1f}"
            f" + containers {containers:.1f}{_of_how_many(power['nodes'], nodes)}"
        )
    yield (
        f"CPU         {cluster['cpu_cores_used']:.2f} of {cluster['cpu_cores']:g} cores"
        f" ({_share(cluster, 'cpu_cores')})"
    )
    yield (
        f"memory      {bytes_text(cluster['memory_bytes_used'])} of {bytes_text(cluster['memory_bytes'])}"
        f" ({_share(cluster, 'memory_bytes')})"
    )
    yield f"alerts      {len(alerts) or 'none'}{' open' if alerts else ''}"
    yield from _few(f"            {each['subject']}: {each['evidence']}" for each in alerts)
    if silent:
        yield "silent"
        yield from _few(
            f"            {each['name']} is {each['state']}, last heard of"
            f" {seconds_text(each['last_seen_seconds_ago'])} ago"
            for each in silent
        )
    for problem in cluster["problems"]:
        yield f"trouble     {problem}"
    yield ""
    yield f"next        {_next(cluster, alerts, silent)}"


def _of_how_many(telling: int, nodes: Json) -> str:
    heard = nodes["up"] + nodes["suspect"]
    return "" if telling == heard else f" ({telling} of {heard} nodes tell)"


def _share(cluster: Json, what: str) -> str:
    return percent_text(cluster[f"{what}_used"] / cluster[what] if cluster[what] else None)


def _few(lines: Iterator[str]) -> Iterator[str]:
    every = list(lines)
    yield from every[:_FEW]
    if len(every) > _FEW:
        yield f"            ... and {len(every) - _FEW} more"


def _next(cluster: Json, alerts: list[Json], silent: list[Json]) -> str:
    if not sum(cluster["nodes"].values()):
        return "start an agent on each host: wattpack agent, with collector.url set to this collector"
    if cluster["problems"]:
        return "see to the trouble above; /readyz tells when it is over"
    if silent:
        return f"look at {silent[0]['name']}: systemctl status wattpack-agent there says why it is silent"
    if alerts:
        return "wattpack alerts tells more; wattpack plan says what could be moved against it"
    if cluster["at"] - cluster["analyzed_at"] > _LONG_SINCE_SECONDS:
        return "wait a minute: the cluster was not thought through of late, so services may be unknown"
    return "nothing is wrong; wattpack containers shows who draws most, wattpack energy who drew it"
