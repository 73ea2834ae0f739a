"""Usage and power over time: of a node, a container or a service, and of the cluster."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated

from msgspec import Meta, Struct

from collector.common.errors import ApiError
from collector.history.interface import ClusterSeries, Series, SubjectKind
from collector.runtime.parts import Core
from collector.serve.api.containers import no_such_container
from collector.serve.api.nodes import no_such_node
from collector.serve.api.queries import DAY_SECONDS, End, Start, resolve_period
from collector.serve.api.services import no_such_service
from collector.serve.web.routes import NO_HISTORY, Route, get, problem

_MAX_POINTS = 2000
_NO_SUBJECT = problem(HTTPStatus.NOT_FOUND, "There is no such node, container or service.")


class HistoryQuery(Struct, frozen=True, kw_only=True):
    """Period and resolution of a history."""

    start: Start = None
    end: End = None
    step_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=DAY_SECONDS * 31,
            description=f"Time per point; larger where that would exceed {_MAX_POINTS} points.",
        ),
    ] = 60.0


class SubjectHistoryQuery(HistoryQuery, frozen=True, kw_only=True):
    """What the history is about: exactly one of `node`, `container` and `service`."""

    node: Annotated[str | None, Meta(description="Name of the node.")] = None
    container: Annotated[str | None, Meta(description="The full container id.")] = None
    service: Annotated[str | None, Meta(description="Name of the service.")] = None


_ERRORS: Mapping[SubjectKind, Callable[[str], ApiError]] = {
    SubjectKind.NODE: no_such_node,
    SubjectKind.CONTAINER: no_such_container,
    SubjectKind.SERVICE: no_such_service,
}


async def history(core: Core, query: SubjectHistoryQuery) -> Series:
    """Get the usage and power of one node, container or service over time; by default the last hour.

    Those of a service are summed over its containers.
    """
    asked = [(kind, name) for kind in SubjectKind if (name := getattr(query, kind)) is not None]
    if len(asked) != 1:
        raise ApiError(HTTPStatus.BAD_REQUEST, "give exactly one of node, container and service", "node")
    [(kind, name)] = asked
    found = await core.history.series(kind, name, *_resolve(query, core.clock()))
    if not found.points and not _exists(core, kind, name):
        raise _ERRORS[kind](name)
    return found


def _exists(core: Core, kind: SubjectKind, name: str) -> bool:
    """Whether it is there now; a history may also be of what has ended."""
    if kind is SubjectKind.SERVICE:
        return name in core.analysis.latest.services
    nodes = core.registry.nodes(core.clock())
    return any(
        name == each.name if kind is SubjectKind.NODE else name in each.run.containers for each in nodes
    )


async def cluster_history(core: Core, query: HistoryQuery) -> ClusterSeries:
    """Get the power of the cluster over time; by default over the last hour.

    It is divided into idle, system and containers, and has its expected error.
    """
    error_ratios = {
        each.name: state.power.error_ratio
        for each in core.registry.nodes(core.clock())
        if each.run.state is not None and (state := each.run.state.value).power is not None
    }
    return await core.history.cluster_series(*_resolve(query, core.clock()), error_ratios)


def _resolve(query: HistoryQuery, now: float) -> tuple[float, float, float]:
    """Start, end and step, by default of the last hour."""
    start, end = resolve_period(query.start, query.end, now, default_seconds=3600.0)
    # Coarse enough that rollups serve long periods.
    return start, end, max(query.step_seconds, (end - start) / _MAX_POINTS)


ROUTES: tuple[Route, ...] = (
    get("/v1/history", history, problems={**_NO_SUBJECT, **NO_HISTORY}),
    get("/v1/cluster/history", cluster_history, problems=NO_HISTORY),
)
