"""Nodes that report promised containers, and a registry to report to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from collector.config import CollectorConfig, DriverConfig, LivenessConfig, PlacementConfig
from collector.features.promises.ledger.standing import Standings
from collector.features.promises.live import PromiseTracker
from collector.features.promises.settings import PromisesConfig
from collector.observe.registry import Registry
from tests.collector.builders import HEARTBEAT, START, container, partial_report, state
from wire.messages import ContainerState, Event, EventKind, Report

SILVER: Mapping[str, str] = {"wattpack.slo": "silver"}
BEACON_SECONDS = HEARTBEAT.beacon_seconds


def config(*, driver: Literal["none", "swarm"] = "none", default_class: str = "") -> CollectorConfig:
    made = CollectorConfig(
        placement=PlacementConfig(snapshot_seconds=0),
        driver=DriverConfig(name=driver),
        liveness=LivenessConfig(down_after_beacons=6.0, forget_after_hours=6.0),
    )
    return made.with_section(PromisesConfig(default_class=default_class))


def promised(name: str, service: str | None = "shop", **changes: Any) -> ContainerState:
    changes.setdefault("labels", dict(SILVER))
    return container(name, service=service, **changes)


@dataclass
class Node:
    """One node, whose containers the test starts and stops."""

    registry: Registry
    name: str = "alpha"
    boot: str = "first"
    skew_seconds: float = 0.0
    containers: dict[str, ContainerState] = field(default_factory=dict)
    _sequence: int = 0

    def report(self, now: float, *, received_at: float | None = None, **parts: Any) -> Report:
        """Report parts, or a beacon."""
        self._sequence += 1
        made = partial_report(
            self.name, boot=self.boot, sequence=self._sequence, at=now + self.skew_seconds, **parts
        )
        self.registry.apply(made, now if received_at is None else received_at)
        return made

    def heartbeat(self, now: float, **more: Any) -> Report:
        return self.report(
            now, state=state(), containers=tuple(self.containers.values()), heartbeat=HEARTBEAT, **more
        )

    def start(self, now: float, *containers: ContainerState, startup_seconds: float | None = None) -> None:
        """Start containers now, and report it."""
        started = [msgspec.structs.replace(each, started_at=now + self.skew_seconds) for each in containers]
        self.containers |= {each.id: each for each in started}
        events = tuple(
            Event(
                EventKind.STARTED,
                now + self.skew_seconds,
                each.id,
                each.name,
                startup_seconds=startup_seconds,
            )
            for each in started
        )
        self.report(now, containers=tuple(started), events=events)

    def stop(self, now: float, *names: str, exit_code: int | None = None, event: bool = True) -> None:
        """Stop containers now, and report it."""
        ids = [f"id-of-{name}" for name in names]
        for each in ids:
            del self.containers[each]
        kind = EventKind.DIED if exit_code else EventKind.STOPPED
        events = tuple(Event(kind, now + self.skew_seconds, each, exit_code=exit_code) for each in ids)
        self.report(now, gone=tuple(ids), events=events if event else ())

    def restart(self, boot: str) -> None:
        """Start another run of its agent."""
        self.boot, self._sequence = boot, 0


def node(registry: Registry, name: str = "alpha", now: float = START, **changes: Any) -> Node:
    """A node that has reported, and runs nothing."""
    made = Node(registry, name, **changes)
    made.heartbeat(now)
    return made


def note_silence(registry: Registry, now: float) -> None:
    """Let the promises know which nodes are silent, as their job does."""
    registry.part(PromiseTracker).note_silence(registry.silent_nodes(now))


def seconds(standings: Standings) -> dict[tuple[str, str], tuple[float, float]]:
    """Running and waiting time by service and slot, to the millisecond."""
    instances, names = standings.instances, standings.names
    return {
        (names[service], slot): (round(running, 3), round(waiting, 3))
        for service, slot, running, waiting in zip(
            instances.service.tolist(),
            instances.slots,
            instances.running_seconds.tolist(),
            instances.waiting_seconds.tolist(),
            strict=True,
        )
    }
