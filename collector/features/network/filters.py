"""The filter by distance: a container stays within the bound of its application."""

import numpy as np

from collector.common.arrays import Flags
from collector.features.network.applications.distance import (
    NOT_MEASURED,
    NearMembers,
    bound_of,
    describe_distance,
    near_members,
)
from collector.features.network.applications.table import applications_in
from collector.features.network.mesh.delays import Delays
from collector.policies.interface import Rejection, Request
from collector.policies.node_filters import NodeFilter
from collector.snapshot.tables import Snapshot


class DistanceFilter:
    """Refuses nodes that are too far from members of the application of a container."""

    rejection = Rejection.DISTANCE
    subject = "the bounds of applications"

    def nodes_for(self, snapshot: Snapshot, request: Request) -> Flags | None:
        """Return the nodes that are near enough to the running members; None for all."""
        return near_members(snapshot, request)

    def describe(self, snapshot: Snapshot, request: Request, row: int) -> str:
        """Describe the distance of a node that is too far."""
        return describe_distance(snapshot, request, row)

    def note(self, snapshot: Snapshot, request: Request) -> str | None:
        """Return that round-trip times are not measured, if the request has a bound."""
        is_checked = snapshot.part(Delays) is not None or np.isinf(bound_of(snapshot, request))
        return None if is_checked else NOT_MEASURED

    def services(self, snapshot: Snapshot) -> Flags | None:
        """Return the services whose application has a bound; None for none."""
        applications = applications_in(snapshot)
        if snapshot.part(Delays) is None or np.isinf(applications.delay_max).all():
            return None
        # The last one is for services without an application.
        has_bound: Flags = np.isfinite(np.append(applications.delay_max, np.inf))
        return has_bound[applications.of_service]

    def of_plan(self, snapshot: Snapshot) -> NearMembers:
        """Return the filter for one plan."""
        return NearMembers(snapshot)


FILTERS: tuple[NodeFilter, ...] = (DistanceFilter(),)
