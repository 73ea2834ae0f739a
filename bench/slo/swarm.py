"""Promises of availability on a real Swarm that is full: with plain Swarm, and with `qos-driven`.

Nine services share six slots: three have a promise of 90 % of the time, six of 50 %. That is 5.7 slots; the
rest is for the time that starts take.
"""

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from bench.common.progress import Progress
from bench.common.results import Figure
from bench.swarm.cluster import Cluster, Collector, cluster, until
from collector.common.labels import BEFORE_LABEL, MOVE_LABEL, PARKED_LABEL
from collector.features.promises.settings import SLO_LABEL

SETTINGS: Mapping[str, Mapping[str, Any]] = {"control": {"policy": "", "timer_policy": "qos-driven"}}
NODE_CORES: Final = 2.0
"""The cores that the lab's engines report to Swarm: each engine reports the whole machine."""
CORES: Final = 0.9
"""Reservation of a service: two fit on a node."""
PROMISES: Final[Mapping[str, float]] = {"silver": 0.9, "bronze": 0.5}
COUNTS: Final[Mapping[str, int]] = {"silver": 3, "bronze": 6}
SERVICE: Final = ("sh", "-c", "trap exit TERM; sleep 100000 & wait")
"""Traps SIGTERM, because the first process of a container ignores the signal otherwise."""
AGENTS: Final = {f"bottleneck.{name}_ratio": 0 for name in ("usage", "cpu_pressure", "disk_pressure")}
"""Turns off alerts but those of memory pressure: the three nodes share one machine with other processes."""

_PLAIN_SECONDS = 45.0
_SECONDS = 600.0
_WAIT_SECONDS = 90.0
_SAMPLE_SECONDS = 0.5
_POINT = 100.0


@dataclass(slots=True)
class ServiceUptime:
    """Running time of a service, sampled from the Swarm manager."""

    created_at: float
    running_seconds: float = 0.0
    sampled_at: float | None = None
    is_running: bool = False
    stopped_at: list[float] = field(default_factory=list)

    def sample(self, now: float, *, is_running: bool) -> None:
        """Count the time since the last sample as running if the service ran then."""
        if self.sampled_at is not None and self.is_running:
            self.running_seconds += now - self.sampled_at
        if self.is_running and not is_running:
            self.stopped_at.append(now)
        self.sampled_at, self.is_running = now, is_running

    def availability(self) -> float:
        """Share of the time since its creation in which the service ran."""
        age = (self.sampled_at or self.created_at) - self.created_at
        return self.running_seconds / age if age > 0 else 0.0


class UptimeSampler:
    """Samples the running services in a thread."""

    def __init__(self, nodes: Cluster) -> None:
        self._nodes = nodes
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.uptimes: dict[str, ServiceUptime] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_SAMPLE_SECONDS):
            running = running_services(self._nodes)
            now = time.monotonic()
            for name, uptime in list(self.uptimes.items()):
                uptime.sample(now, is_running=name in running)


def running_services(nodes: Cluster) -> set[str]:
    """Return the services with a running task."""
    names = {each["ID"]: each["Spec"]["Name"] for each in nodes.swarm.manager.get("/services")}
    return {
        names[task["ServiceID"]]
        for task in nodes.swarm.manager.get("/tasks")
        if task["Status"]["State"] == "running"
        and task["DesiredState"] == "running"
        and task["ServiceID"] in names
    }


def marked_services(nodes: Cluster) -> set[str]:
    """Return the services with a temporary label or constraint of the collector."""
    ours = {BEFORE_LABEL, PARKED_LABEL}
    return {
        each["Spec"]["Name"]
        for each in nodes.swarm.manager.get("/services")
        if ours & (each["Spec"].get("Labels") or {}).keys()
        or (each["Spec"]["TaskTemplate"].get("Placement") or {}).get("Constraints")
    }


def parked_services(nodes: Cluster) -> set[str]:
    """Return the services that wait for their turn."""
    return {
        each["Spec"]["Name"]
        for each in nodes.swarm.manager.get("/services")
        if PARKED_LABEL in (each["Spec"].get("Labels") or {})
    }


def create(
    nodes: Cluster, sampler: UptimeSampler, counts: Mapping[str, int] = COUNTS, prefix: str = ""
) -> list[str]:
    """Create the services, the laxer class first: plain Swarm then leaves the others pending."""
    names = []
    for promise in sorted(counts):
        for number in range(counts[promise]):
            name = f"{prefix}{promise}{number}"
            nodes.swarm.create_service(
                name,
                *SERVICE,
                labels={SLO_LABEL: promise, MOVE_LABEL: "allowed"},
                extra=(f"--reserve-cpu={CORES}", f"--limit-cpu={CORES}"),
            )
            sampler.uptimes[name] = ServiceUptime(time.monotonic())
            names.append(name)
    return names


def measure(_data: Path | None, progress: Progress, seconds: float = _SECONDS) -> Iterator[Figure]:
    """Run plain Swarm for a while, then `qos-driven` with a collector that is killed meanwhile."""
    with cluster(cores=NODE_CORES) as nodes, UptimeSampler(nodes) as sampler:
        try:
            yield _plain(nodes, sampler, progress)
            collector = nodes.collector(SETTINGS)
            nodes.watch(collector, AGENTS)
            names = create(nodes, sampler)
            progress.wait("slo: before the collector is killed", seconds / 2)
            yield from _kill(nodes)
            collector.process.end(signal.SIGKILL)
            collector = nodes.collector(SETTINGS)
            left = seconds - (time.monotonic() - sampler.uptimes[names[0]].created_at)
            progress.wait("slo: after the collector was killed", left)
            uptimes = {name: sampler.uptimes[name] for name in names}
            yield from _availability(uptimes)
            yield from _stops(uptimes, collector)
            yield from _ledger(uptimes, collector)
            yield from _relief(nodes, names)
        except Exception:
            print(nodes.logs())
            raise


def _plain(nodes: Cluster, sampler: UptimeSampler, progress: Progress) -> Figure:
    names = create(nodes, sampler, prefix="plain-")
    progress.wait("slo: plain Swarm", _PLAIN_SECONDS)
    never = sum(sampler.uptimes.pop(name).availability() == 0 for name in names)
    nodes.remove(*names)
    until(lambda: not {*names} & running_services(nodes), _WAIT_SECONDS)
    return Figure(name="swarm_plain_never_ran", value=never, unit="of 9 services", at_least=1)


def _kill(nodes: Cluster) -> Iterator[Figure]:
    """Wait until a service is parked, which is the moment to kill the collector."""
    parked, _ = until(lambda: parked_services(nodes), _WAIT_SECONDS)
    yield Figure(
        name="swarm_parked_at_kill", value=len(parked or ()), unit="services parked at kill -9", at_least=1
    )


def _availability(uptimes: Mapping[str, ServiceUptime]) -> Iterator[Figure]:
    shortfalls = {name: _POINT * (_promise(name) - uptime.availability()) for name, uptime in uptimes.items()}
    for name, uptime in uptimes.items():
        print(f"{name}: {_POINT * uptime.availability():.1f} %, stopped {len(uptime.stopped_at)} times")
    for promise in PROMISES:
        values = [uptime.availability() for name, uptime in uptimes.items() if name.startswith(promise)]
        yield Figure(
            name=f"swarm_{promise}_mean_availability", value=sum(values) / len(values), unit="of the time"
        )
    yield Figure(
        name="swarm_largest_shortfall",
        value=max(shortfalls.values()),
        unit="points below its promise",
        at_most=5,
    )
    yield Figure(
        name="swarm_largest_surplus", value=-min(shortfalls.values()), unit="points above its promise"
    )
    yield Figure(
        name="swarm_never_ran",
        value=sum(each.running_seconds == 0 for each in uptimes.values()),
        unit="services",
        at_most=0,
    )


def _promise(name: str) -> float:
    return next(share for promise, share in PROMISES.items() if name.startswith(promise))


def _stops(uptimes: Mapping[str, ServiceUptime], collector: Collector) -> Iterator[Figure]:
    gaps = [
        later - earlier
        for uptime in uptimes.values()
        for earlier, later in zip(uptime.stopped_at, uptime.stopped_at[1:], strict=False)
    ]
    stops = sum(len(uptime.stopped_at) for uptime in uptimes.values())
    yield Figure(name="swarm_stops", value=stops, unit="stops", at_least=1)
    yield Figure(
        name="swarm_shortest_time_between_stops",
        value=min(gaps, default=None),
        unit="s between two stops of a service",
        # Samples are not exact to the second.
        at_least=60 - 2 * _SAMPLE_SECONDS,
    )
    states: defaultdict[str, int] = defaultdict(int)
    for decision in collector.decisions(limit="1000"):
        for step in decision["steps"]:
            states[step["state"]] += 1
            if step["why"]:
                print(
                    decision["at"], step["action"]["kind"], step["action"]["name"], step["state"], step["why"]
                )
    print(dict(states))
    failed = sum(states[state] for state in ("failed", "undone", "unclear"))
    yield Figure(name="swarm_failed_steps", value=failed, unit=f"of {sum(states.values())} steps")


def _ledger(uptimes: Mapping[str, ServiceUptime], collector: Collector) -> Iterator[Figure]:
    """Compare the collector's ledger with the samples."""
    reported = {each["service"]: each["availability_ratio"] for each in collector.get("/v1/slo")["slo"]}
    differences = [
        abs(reported[name] - uptime.availability()) for name, uptime in uptimes.items() if name in reported
    ]
    yield Figure(
        name="swarm_ledger_difference",
        value=_POINT * max(differences) if len(differences) == len(uptimes) else None,
        unit="points between the ledger and the samples, at most",
        at_most=5,
    )


def _relief(nodes: Cluster, names: Sequence[str]) -> Iterator[Figure]:
    """Remove load: the remaining services fit, and run without labels of the collector."""
    nodes.remove(*(name for name in names if name.startswith("silver")))
    rest = {name for name in names if not name.startswith("silver")}
    is_free, seconds = until(
        lambda: rest <= running_services(nodes) and not marked_services(nodes), _WAIT_SECONDS
    )
    yield Figure(
        name="swarm_released_after",
        value=seconds if is_free else None,
        unit="s until all run and nothing is parked",
        at_most=_WAIT_SECONDS,
    )
    forgotten = len((rest - running_services(nodes)) | marked_services(nodes))
    yield Figure(name="swarm_forgotten", value=forgotten, unit="services", at_most=0)
