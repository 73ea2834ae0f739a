"""Promises of availability on a real Swarm that is full: with plain Swarm, and with `qos-driven`.

Nine services share six places: three are promised 90 % of the time, six are promised 50 %. That is 5.7
places, and what is left pays for the starts.
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
from collector.common.labels import BEFORE_LABEL, MOVE_LABEL, PARKED_LABEL, SLO_LABEL

SETTINGS: Mapping[str, Mapping[str, Any]] = {"control": {"policy": "", "timer_policy": "qos-driven"}}
NODE_CORES: Final = 2.0
"""As many as the engines of the lab report to Swarm: each believes that it has the whole machine."""
CORES: Final = 0.9
"""What a service reserves: two fit on a node."""
PROMISES: Final[Mapping[str, float]] = {"silver": 0.9, "bronze": 0.5}
COUNTS: Final[Mapping[str, int]] = {"silver": 3, "bronze": 6}
SERVICE: Final = ("sh", "-c", "trap exit TERM; sleep 100000 & wait")
"""It stops on SIGTERM: the first process of a container ignores the signal otherwise."""
AGENTS: Final = {
    f"bottleneck.{name}_ratio": 0 for name in ("cpu", "cpu_pressure", "disk", "disk_pressure", "iowait")
}
"""The three nodes are one machine, and what others do on it is not theirs."""

_PLAIN_SECONDS = 45.0
_SECONDS = 600.0
_WAIT_SECONDS = 90.0
_SAMPLE_SECONDS = 0.5
_POINT = 100.0


@dataclass(slots=True)
class Life:
    """When a service ran, as its manager lists it."""

    created_at: float
    running_seconds: float = 0.0
    sampled_at: float | None = None
    is_running: bool = False
    stopped_at: list[float] = field(default_factory=list)

    def sample(self, now: float, *, is_running: bool) -> None:
        """Count the time since the last sample by the state that it had then."""
        if self.sampled_at is not None and self.is_running:
            self.running_seconds += now - self.sampled_at
        if self.is_running and not is_running:
            self.stopped_at.append(now)
        self.sampled_at, self.is_running = now, is_running

    def availability(self) -> float:
        """The share of the time since it was created in which it ran."""
        lived = (self.sampled_at or self.created_at) - self.created_at
        return self.running_seconds / lived if lived > 0 else 0.0


class Watch:
    """Samples which services run, beside everything else."""

    def __init__(self, nodes: Cluster) -> None:
        self._nodes = nodes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.lives: dict[str, Life] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            running = running_services(self._nodes)
            now = time.monotonic()
            for name, life in list(self.lives.items()):
                life.sample(now, is_running=name in running)


def running_services(nodes: Cluster) -> set[str]:
    """Return the services with a task that runs."""
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


def create(nodes: Cluster, watch: Watch, counts: Mapping[str, int] = COUNTS, prefix: str = "") -> list[str]:
    """Create the services, the laxer class first: plain Swarm then leaves the others without a place."""
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
            watch.lives[name] = Life(time.monotonic())
            names.append(name)
    return names


def measure(_data: Path | None, progress: Progress, seconds: float = _SECONDS) -> Iterator[Figure]:
    """Run plain Swarm for a while, then `qos-driven` with a collector that is killed on the way."""
    with cluster(cores=NODE_CORES) as nodes, Watch(nodes) as watch:
        try:
            yield _plain(nodes, watch, progress)
            collector = nodes.collector(SETTINGS)
            nodes.watch(collector, AGENTS)
            names = create(nodes, watch)
            progress.wait("slo: until the collector is killed", seconds / 2)
            yield from _kill(nodes)
            collector.process.end(signal.SIGKILL)
            collector = nodes.collector(SETTINGS)
            left = seconds - (time.monotonic() - watch.lives[names[0]].created_at)
            progress.wait("slo: after it was killed", left)
            lives = {name: watch.lives[name] for name in names}
            yield from _availability(lives)
            yield from _stops(lives, collector)
            yield from _ledger(lives, collector)
            yield from _relief(nodes, names)
        except Exception:
            print(nodes.logs())
            raise


def _plain(nodes: Cluster, watch: Watch, progress: Progress) -> Figure:
    names = create(nodes, watch, prefix="plain-")
    progress.wait("slo: plain Swarm", _PLAIN_SECONDS)
    never = sum(watch.lives.pop(name).availability() == 0 for name in names)
    nodes.remove(*names)
    until(lambda: not {*names} & running_services(nodes), _WAIT_SECONDS)
    return Figure(name="swarm_plain_never_ran", value=never, unit="of 9 services", at_least=1)


def _kill(nodes: Cluster) -> Iterator[Figure]:
    """Wait until a service is parked: that is the moment to kill the collector in."""
    parked, _ = until(lambda: parked_services(nodes), _WAIT_SECONDS)
    yield Figure(
        name="swarm_parked_at_kill", value=len(parked or ()), unit="services parked at kill -9", at_least=1
    )


def _availability(lives: Mapping[str, Life]) -> Iterator[Figure]:
    shortfalls = {name: _POINT * (_promise(name) - life.availability()) for name, life in lives.items()}
    for name, life in lives.items():
        print(f"{name}: {_POINT * life.availability():.1f} %, stopped {len(life.stopped_at)} times")
    for promise in PROMISES:
        values = [life.availability() for name, life in lives.items() if name.startswith(promise)]
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
        value=sum(each.running_seconds == 0 for each in lives.values()),
        unit="services",
        at_most=0,
    )


def _promise(name: str) -> float:
    return next(share for promise, share in PROMISES.items() if name.startswith(promise))


def _stops(lives: Mapping[str, Life], collector: Collector) -> Iterator[Figure]:
    gaps = [
        later - earlier
        for life in lives.values()
        for earlier, later in zip(life.stopped_at, life.stopped_at[1:], strict=False)
    ]
    stops = sum(len(life.stopped_at) for life in lives.values())
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


def _ledger(lives: Mapping[str, Life], collector: Collector) -> Iterator[Figure]:
    """Compare what the collector reports with what was sampled."""
    reported = {each["service"]: each["availability_ratio"] for each in collector.get("/v1/slo")["slo"]}
    differences = [
        abs(reported[name] - life.availability()) for name, life in lives.items() if name in reported
    ]
    yield Figure(
        name="swarm_ledger_difference",
        value=_POINT * max(differences) if len(differences) == len(lives) else None,
        unit="points between the ledger and the samples, at most",
        at_most=5,
    )


def _relief(nodes: Cluster, names: Sequence[str]) -> Iterator[Figure]:
    """The load goes: what is left fits, and runs without any trace of the collector."""
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
