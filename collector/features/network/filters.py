"""The filter by distance: a container stays within the bound of its application."""

import numpy as np

from collector.common.arrays import Flags
from collector.decide.policies.filters import NodeFilter
from collector.decide.policies.interface import Rejection, Request
from collector.features.network.applications.distance import (
    NOT_MEASURED,
    NearMembers,
    bound_of,
    describe_distance,
    near_members,
)
from collector.features.network.applications.table import applications_in
from collector.features.network.mesh.delays import Delays
from collector.snapshot.tables import Snapshot


def _note(snapshot: Snapshot, request: Request) -> str | None:
    is_checked = snapshot.part(Delays) is not None or np.isinf(bound_of(snapshot, request))
    return None if is_checked else NOT_MEASURED


def _bounded_services(snapshot: Snapshot) -> Flags | None:
    applications = applications_in(snapshot)
    if snapshot.part(Delays) is None or np.isinf(applications.delay_max).all():
        return None
    # The last one is for services without an application.
    has_bound: Flags = np.isfinite(np.append(applications.delay_max, np.inf))
    return has_bound[applications.of_service]


FILTERS = (
    NodeFilter(
        rejection=Rejection.DISTANCE,
        subject="the bounds of applications",
        nodes_for=near_members,
        describe=describe_distance,
        note=_note,
        services=_bounded_services,
        of_plan=NearMembers,
    ),
)
