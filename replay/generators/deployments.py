"""Services of several instances with promises of availability, all submitted at once.

As in the test of controllers in the study of QoS-driven scheduling.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.features.promises.ledger.promises import Promise, ServiceMode
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import Positive, Table
from replay.setup.workload import (
    PromisedContainers,
    Reserved,
    Workload,
    build_workload,
    columns,
    numbered,
)

_STEP_SECONDS = 60.0


class DeploymentClass(Table, frozen=True, kw_only=True):
    """Services with the same promise."""

    name: Annotated[str, Meta(min_length=1)]
    availability: Annotated[float, Meta(gt=0, le=1)]
    deployments: Annotated[int, Meta(ge=1)]


class DeploymentsSettings(Table, frozen=True, kw_only=True):
    """Settings of the generator."""

    classes: Annotated[tuple[DeploymentClass, ...], Meta(min_length=1)]
    """The most important class first."""
    cpu_cores: Positive
    memory_mb: Positive
    pods: Annotated[int, Meta(ge=1)] = 2
    mode: ServiceMode = ServiceMode.INDEPENDENT
    late: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    """Number of pods that come after all others: of the last deployment, the one before it, and so on."""
    seconds: Positive = 3600.0


def generate(settings: DeploymentsSettings, seed: int) -> Workload:
    """Generate the pods in the order in which they are submitted, all at the start."""
    del seed  # nothing is drawn
    of_class = [place for place, each in enumerate(settings.classes) for _ in range(each.deployments)]
    late = dict(enumerate(settings.late, start=1))
    pods = [
        (pod >= settings.pods - late.get(len(of_class) - deployment, 0), deployment, pod)
        for deployment in range(len(of_class))
        for pod in range(settings.pods)
    ]
    order = [deployment for _, deployment, _ in sorted(pods)]
    count = len(order)
    names = [f"{settings.classes[of_class[each]].name}-{each + 1:02}" for each in order]
    requested = columns(settings.cpu_cores, settings.memory_mb * MEBIBYTE, rest=np.nan, count=count)
    return build_workload(
        numbered(count, names),
        requested,
        Reserved(requested),
        services=tuple(names),
        duration_seconds=settings.seconds,
        step_seconds=_STEP_SECONDS,
        promised=PromisedContainers(
            promises=tuple(
                Promise(name=each.name, availability=each.availability, importance=place)
                for place, each in enumerate(settings.classes, start=1)
            ),
            promise=np.array([of_class[each] for each in order], dtype=np.int8),
            spread=np.zeros(count, dtype=np.bool_),
            mode=settings.mode,
            by_service=True,
        ),
    )
