"""A real Swarm in four regions: round-trip times that the mesh measures, and a Redis cluster placed by delay.

The nodes are engines in network namespaces, and a link between them delays packets by ge-kube's matrix. The
application of six containers is placed in turn by Swarm itself, which spreads it, and by `net-aware`.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any, Final

from bench.common.progress import Progress
from bench.common.requirements import Need, lab_part
from bench.common.results import Figure
from bench.network import redis
from bench.swarm.cluster import Cluster, Collector, cluster, until
from collector.common.labels import APP_LABEL, DELAY_MAX_LABEL
from tests.lab.hosts.link import GE_KUBE_REGIONS, GE_KUBE_ROUND_TRIPS, Matrix, between_regions

REGIONS: Final = GE_KUBE_REGIONS * 2
"""The region of each node: two nodes per region, alternating."""
NODE_CORES: Final = 2.0
NODE_MEMORY_BYTES: Final = 1 << 30
DELAY_MAX_SECONDS: Final = 0.05
"""As in the evaluation of ge-kube."""
LABELS: Final = {APP_LABEL: "redis", DELAY_MAX_LABEL: "50ms"}
SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "mesh": {"enabled": True},
    # Its services are in no stack.
    "applications": {"redis": {}},
    # The application starts again as soon as agents report that it has ended.
    "placement": {"snapshot_seconds": 0},
}
AGENTS: Final = {"mesh.enabled": "true"}

_MESH_SECONDS: Final = 300.0
_SETTLE_SECONDS: Final = 90.0
"""All agents start at once on two cores, so the first probes take longer than the link's delay."""
_TOLERANCE_SECONDS, _TOLERANCE_RATIO = 0.002, 0.1
_FORGET_SECONDS: Final = 60.0
_ROUNDS: Final = 3
_SECONDS: Final = 3.0
"""Duration of each kind of operation."""
_LEAST_RATIO: Final = 2.5


@dataclass(frozen=True, slots=True)
class Round:
    """One placement of the application, and its throughput there."""

    places: Mapping[str, str]
    throughput: redis.Throughput
    router_cores: float


def needs(part: str) -> list[Need]:
    """A Swarm, a link and Redis."""
    return [lab_part(name, part) for name in ("swarm", "link", "redis")]


def figures(progress: Progress, rounds: int = _ROUNDS, seconds: float = _SECONDS) -> Iterator[Figure]:
    """Compare the mesh with the matrix; then place the application by Swarm and by `net-aware`, in turn."""
    round_trips = between_regions(REGIONS, GE_KUBE_ROUND_TRIPS)
    with cluster(cores=NODE_CORES, memory_bytes=NODE_MEMORY_BYTES, round_trips=round_trips) as nodes:
        try:
            redis.import_image(nodes.swarm)
            collector = nodes.collector(SETTINGS)
            nodes.watch(collector, AGENTS)
            progress.say("network: waiting until the mesh has measured all pairs")
            yield from _mesh(nodes, collector, round_trips, progress)
            spread, near = [], []
            for number in range(1, rounds + 1):
                progress.say(f"network: Redis, round {number} of {rounds}")
                spread.append(_round(nodes, collector, None, seconds))
                near.append(_round(nodes, collector, _request_placement(collector), seconds))
            yield from _redis(spread, near)
        except Exception:
            print(nodes.logs())
            raise


def _mesh(nodes: Cluster, collector: Collector, round_trips: Matrix, progress: Progress) -> Iterator[Figure]:
    names = [node.name for node in nodes.swarm.nodes]
    pairs = list(combinations(range(len(names)), 2))
    _, seconds = until(lambda: len(_measured(collector)) == len(pairs), _MESH_SECONDS)
    progress.wait("network: waiting for several probes per pair", _SETTLE_SECONDS)
    measured = _measured(collector)
    errors = {}
    for one, other in pairs:
        expected = round_trips[one][other]
        found = measured.get(frozenset((names[one], names[other])))
        if found is not None:
            print(
                f"{names[one]} to {names[other]}: {1e3 * found:.2f} ms, the link has {1e3 * expected:.0f} ms"
            )
            errors[one, other] = abs(found - expected), expected
    outside = sum(
        error > max(_TOLERANCE_SECONDS, _TOLERANCE_RATIO * expected) for error, expected in errors.values()
    )
    yield Figure(
        name="swarm_pairs_measured", value=len(measured), unit=f"of {len(pairs)} pairs", at_least=len(pairs)
    )
    yield Figure(name="swarm_mesh_complete_after", value=seconds, unit="s")
    yield Figure(
        name="swarm_pairs_off",
        value=outside if errors else None,
        unit="pairs off by more than 2 ms and 10 %",
        at_most=0,
    )
    yield Figure(
        name="swarm_largest_error",
        value=1e3 * max(error for error, _ in errors.values()) if errors else None,
        unit="ms between the mesh and the link",
    )


def _measured(collector: Collector) -> dict[frozenset[str], float]:
    """The median round-trip time of each measured pair of nodes."""
    network = collector.get("/v1/network")
    names = [node["name"] for node in network["nodes"]]
    return {
        frozenset((names[one], names[other])): network["p50_seconds"][one][other]
        for one, other in combinations(range(len(names)), 2)
        if network["kinds"][one][other] == "measured"
    }


def _request_placement(collector: Collector) -> dict[str, str]:
    """Request the node of each member from `net-aware`."""
    response = collector.post(
        "/v1/hints/application",
        {
            "application": "redis",
            "policy": "net-aware",
            "delay_max_seconds": DELAY_MAX_SECONDS,
            "services": [
                {
                    "service": member,
                    "image": redis.IMAGE,
                    "labels": LABELS,
                    "reserve": {"cpu_cores": redis.CORES, "memory_bytes": redis.MEMORY_BYTES},
                }
                for member in redis.MEMBERS
            ],
        },
    )
    print("; ".join((*response["reasons"], *response["notes"])))
    if not response["placed"]:
        raise RuntimeError(
            f"net-aware places nothing: {response['why_not']}; {', '.join(response['needed'])}"
        )
    return {each["service"]: next(iter(each["nodes"])) for each in response["services"]}


def _reported(collector: Collector) -> list[str]:
    """Members of the application that agents report as running."""
    containers = collector.get("/v1/containers?limit=1000")["containers"]
    return [each["service"] for each in containers if each["service"] in redis.MEMBERS]


def _round(nodes: Cluster, collector: Collector, places: Mapping[str, str] | None, seconds: float) -> Round:
    link = nodes.swarm.link
    assert link is not None
    application = redis.Application(nodes.swarm)
    found = application.start(LABELS, places)
    before, began = link.router_cpu_seconds(), time.monotonic()
    throughput = application.measure(seconds)
    cores = (link.router_cpu_seconds() - before) / (time.monotonic() - began)
    application.stop()
    # Containers that the collector still lists would count as members of the next application.
    until(lambda: not _reported(collector), _FORGET_SECONDS)
    regions = {node.name: region for node, region in zip(nodes.swarm.nodes, REGIONS, strict=True)}
    print(
        "net-aware:" if places else "Swarm:",
        f"{throughput.total:.0f} operations/s;",
        ", ".join(f"{member} on {node} ({regions[node]})" for member, node in found.items()),
    )
    return Round(found, throughput, cores)


def _redis(spread: Sequence[Round], near: Sequence[Round]) -> Iterator[Figure]:
    means = []
    for name, rounds in (("spread", spread), ("net_aware", near)):
        rates = [each.throughput.total for each in rounds]
        means.append(fmean(rates))
        yield Figure(name=f"redis_{name}", value=fmean(rates), unit="operations/s, mean of all rounds")
        yield Figure(name=f"redis_{name}_slowest", value=min(rates), unit="operations/s, slowest round")
        yield Figure(name=f"redis_{name}_fastest", value=max(rates), unit="operations/s, fastest round")
        yield Figure(
            name=f"redis_{name}_nodes",
            value=fmean(len(set(each.places.values())) for each in rounds),
            unit="nodes in use",
        )
    yield Figure(
        name="redis_net_aware_against_spread",
        value=means[1] / means[0],
        unit="times the operations/s",
        at_least=_LEAST_RATIO,
    )
    yield Figure(
        name="redis_equal_work_against_spread",
        value=fmean(each.throughput.equal_work for each in near)
        / fmean(each.throughput.equal_work for each in spread),
        unit="times the operations/s, if all clients do the same work",
    )
    yield Figure(
        name="redis_link_cores",
        value=max(each.router_cores for each in (*spread, *near)),
        unit="cores that delaying packets uses at most",
        at_most=0.7,
    )
