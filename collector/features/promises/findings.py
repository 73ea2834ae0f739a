"""Promises of availability that are broken, or will break soon."""

import asyncio
import difflib
from collections.abc import Container, Iterable, Iterator, Mapping

from collector.analysis.bottlenecks import BottleneckKind, Finding
from collector.features.promises.ledger.standing import PromiseState, Standings
from collector.features.promises.live import PromiseTracker
from collector.features.promises.routes import standings_now
from collector.features.promises.settings import SLO_LABEL, promise_classes
from collector.runtime.parts import Core

_UNRECOVERABLE = 1.0
"""A broken promise of 100% cannot be kept again."""
_WARNING_SECONDS = 60.0
"""An alert opens this long before a promise breaks, which only one with an instance that waits can."""
_NODES_AT_ONCE = 4


async def findings(core: Core) -> list[Finding]:
    """The services whose promise is broken or at risk, or whose class is unknown."""
    classes = promise_classes(core.config)
    unknown = unknown_class_findings(await _unknown_classes(core, classes), classes)
    return [*unknown, *await asyncio.to_thread(list, promise_findings(await standings_now(core)))]


async def _unknown_classes(core: Core, classes: Container[str]) -> Mapping[str, str]:
    """Services whose label names no class, with that name; a few nodes at a time, as there may be many."""
    registry = core.registry
    found = dict(registry.part(PromiseTracker).book.unknown_classes)
    names = registry.names()
    for start in range(0, len(names), _NODES_AT_ONCE):
        running = registry.running_containers(names[start : start + _NODES_AT_ONCE])
        for each in (container for containers in running.values() for container in containers):
            name = each.labels.get(SLO_LABEL)
            if name and name not in classes:
                found[each.service or each.name] = name
        await asyncio.sleep(0)
    return found


def promise_findings(standings: Standings) -> Iterator[Finding]:
    """The promises that are broken, and those that break within a minute unless instances start.

    A broken promise of 100% is a finding only while an instance waits: nothing else can be done about it.
    """
    for each in standings.live_services:
        waiting, breaks_in = each.instances - each.running_instances, each.breaks_in_seconds
        if each.state is PromiseState.BROKEN and (waiting or each.target_ratio < _UNRECOVERABLE):
            what = f"{each.service} breaks its promise: it is behind by {each.deficit_seconds:.0f} s"
        elif each.state is PromiseState.AT_RISK and breaks_in is not None and breaks_in <= _WARNING_SECONDS:
            what = f"{each.service} will break its promise in {breaks_in:.0f} s"
        else:
            continue
        ratio = each.availability_ratio
        shares = f"{_percent(each.target_ratio)} promised, {_percent(ratio)} delivered"
        yield Finding(
            kind=BottleneckKind.PROMISE,
            subject=each.service,
            ratio=ratio,
            evidence=f"{what} ({shares}; {_waiting(waiting, each.instances)})",
        )


def unknown_class_findings(unknown: Mapping[str, str], classes: Iterable[str]) -> Iterator[Finding]:
    """The services whose label names no class, which are promised nothing, or the default."""
    known = list(classes)
    for service, name in unknown.items():
        near = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"
        yield Finding(
            kind=BottleneckKind.PROMISE,
            subject=service,
            evidence=f"{service} has the label wattpack.slo={name}, but [slo] has no such class: {advice}",
        )


def _percent(ratio: float) -> str:
    # A service that hardly ran delivers 0%, not 7e-08%.
    return f"{round(100 * ratio, 4):.4g}%"


def _waiting(waiting: int, live: int) -> str:
    if waiting == 0:
        return "all instances run"
    instances = "instance" if live == 1 else "instances"
    return f"{waiting} of {live} {instances} {'waits' if waiting == 1 else 'wait'}"
