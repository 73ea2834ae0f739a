"""What was before this collector's own file began, as the store tells it.

A store counts every sample alike, where the file weighs each by the time for which it held. As all that holds
is repeated every minute, steps of some minutes come out nearly the same.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from collector.history.interface import Point, Series, SubjectKind
from collector.history.prometheus.client import Client, quoted
from collector.history.prometheus.schema import INFO, INSTANCE, USAGE_METRICS
from collector.history.prometheus.writer import REPEAT_SECONDS
from collector.history.sqlite.series import MAX_POINTS
from wire.resources import RESOURCES, Quantities, Resource

_NODE_LEVEL_OF: Final = {
    Resource.CPU: "wattpack_node_cpu_cores",
    Resource.MEMORY: "wattpack_node_memory_used_bytes",
    Resource.DISK: "wattpack_node_disk_bytes_per_second",
    Resource.NETWORK: "wattpack_node_network_bytes_per_second",
}
_MEAN, _MOST = "avg_over_time", "max_over_time"
_WATTS: Final = "watts"


class StoreSeries:
    """Asks the store."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def series(
        self, kind: SubjectKind, name: str, start: float, end: float, step_seconds: float
    ) -> Series:
        """The history of one of them in `[start, end)`; raises `Unavailable`."""
        step = math.ceil(max(step_seconds, 2 * REPEAT_SECONDS, (end - start) / MAX_POINTS))
        names = _metrics(kind)
        asked = [(key, over) for key in names for over in (_MEAN, _MOST)]
        answers = await asyncio.gather(
            *(
                self._client.query_range(_promql(kind, name, names[key], over, step), start + step, end, step)
                for key, over in asked
            )
        )
        steps: defaultdict[float, dict[tuple[str, str], float]] = defaultdict(dict)
        for which, found in zip(asked, answers, strict=True):
            for each in found:
                for at, value in each.values:
                    if math.isfinite(float(value)):
                        # A step is asked for at its end, and told by its beginning.
                        steps[at - step][which] = float(value)
        points = (_point(at, known) for at, known in sorted(steps.items()))
        return Series(step_seconds=float(step), points=tuple(points))


def _metrics(kind: SubjectKind) -> dict[str, str]:
    """What to ask for, by resource, and of watts."""
    is_node = kind is SubjectKind.NODE
    levels = _NODE_LEVEL_OF if is_node else USAGE_METRICS
    watts = "wattpack_node_power_watts" if is_node else "wattpack_container_power_watts"
    return {**{resource.value: metric for resource, metric in levels.items()}, _WATTS: watts}


def _promql(kind: SubjectKind, name: str, metric: str, over: str, step: int) -> str:
    match kind:
        case SubjectKind.NODE:
            return f"sum({over}({metric}{{{INSTANCE}={quoted(name)}}}[{step}s]))"
        case SubjectKind.CONTAINER:
            return f"sum({over}({metric}{{id={quoted(name)}}}[{step}s]))"
        case SubjectKind.SERVICE:
            # Only what a container is says whose it is.
            members = f"max by ({INSTANCE}, id) (last_over_time({INFO}{{service={quoted(name)}}}[{step}s]))"
            return f"sum(sum by ({INSTANCE}, id) ({over}({metric}[{step}s])) * on ({INSTANCE}, id) {members})"


def _point(at: float, known: Mapping[tuple[str, str], float]) -> Point:
    mean, most = ([known.get((resource.value, over)) for resource in RESOURCES] for over in (_MEAN, _MOST))
    return Point(
        at=at,
        mean=_quantities(mean),
        max=_quantities(most),
        mean_watts=known.get((_WATTS, _MEAN)),
        max_watts=known.get((_WATTS, _MOST)),
    )


def _quantities(values: list[float | None]) -> Quantities:
    cpu, memory, disk, network = values
    return Quantities(cpu, None if memory is None else round(memory), disk, network)
