"""Attacks on what honest nodes own: claims about their services, and labels that name them."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

import msgspec

from bench.trust.cluster import SERVICES
from wire.messages import ContainerState, ContainerUsage, Report, encode
from wire.resources import Quantities
from wire.sketch import Sketch, bin_of

_MOST = 1_000_000
_CROWD = 100
_LABELS = (
    *("wattpack.app", "wattpack.delay-max", "wattpack.talks-to", "wattpack.class", "wattpack.weight"),
    *("wattpack.optional", "wattpack.elastic", "wattpack.slo", "wattpack.move", "wattpack.probe"),
    *("com.docker.stack.namespace", "com.docker.compose.project", "com.docker.swarm.service.name"),
    *("io.kubernetes.pod.namespace", "io.kubernetes.pod.name"),
)
_VALUES = (
    *("shop", "service-0", "", "1ns", "1us", "-1", "nan", "1e309", "9" * 400, "true", "0" * 64, "a@b"),
    *("service-0\nservice-1", "\u202eecivres", "../..", "%s", "null", "\u0000", "{}", ",".join("ab" * 50)),
)


class Attacker(Protocol):
    """The node that attacks."""

    random: Random

    def report(self) -> Report: ...

    async def post(self, body: bytes) -> int: ...


async def poisoned_service(adversary: Attacker) -> int:
    """Claim as many samples as a message holds, of a service that the others run."""
    return await _post(adversary, [12.0], samples=_MOST)


async def claimed_capacity(adversary: Attacker) -> int:
    """Claim a node of 100,000 cores that a service uses up."""
    return await _post(adversary, [1e5], samples=_MOST, capacity=Quantities(1e5, 2**50, 1e15, 1e15))


async def crowded_service(adversary: Attacker) -> int:
    """Claim very many containers of a service, each of plausible use."""
    return await _post(adversary, [1.0] * _CROWD, samples=300)


async def odd_labels(adversary: Attacker) -> int:
    """Set labels that name what others own, with values at the edges of what they may be."""
    choose = adversary.random
    labels = {
        label: choose.choice(_VALUES) for label in choose.sample(_LABELS, choose.randrange(1, len(_LABELS)))
    }
    return await _post(adversary, [0.5], samples=300, labels=labels, name=choose.choice(_VALUES) or "c")


async def _post(
    adversary: Attacker,
    cores: list[float],
    *,
    samples: int,
    capacity: Quantities | None = None,
    **changes: object,
) -> int:
    report, service = adversary.report(), f"service-{adversary.random.randrange(SERVICES)}"
    (template, *_) = report.containers
    containers = tuple(
        msgspec.structs.replace(
            template,
            **{"id": f"poison-{place}", "name": f"poison-{place}", "service": service, **changes},
            used=Quantities(each, 1 << 28, 0.0, 0.0),
        )
        for place, each in enumerate(cores)
    )
    usage = tuple(
        ContainerUsage(each.id, cpu=Sketch({bin_of(one): samples}))
        for each, one in zip(containers, cores, strict=True)
    )
    return await adversary.post(encode([_with(report, containers, usage, capacity)]))


def _with(
    report: Report,
    containers: tuple[ContainerState, ...],
    usage: tuple[ContainerUsage, ...],
    capacity: Quantities | None,
) -> Report:
    assert report.heartbeat is not None
    assert report.state is not None
    state = report.state
    return msgspec.structs.replace(
        report,
        state=state if capacity is None else msgspec.structs.replace(state, capacity=capacity),
        containers=containers,
        heartbeat=msgspec.structs.replace(report.heartbeat, usage=usage),
    )


POISON: tuple[Callable[[Attacker], Awaitable[int]], ...] = (
    poisoned_service,
    claimed_capacity,
    crowded_service,
    odd_labels,
)
