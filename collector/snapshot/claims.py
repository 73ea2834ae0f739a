"""Whose labels name the application of each service."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from collector.common.applications import ApplicationTraits


class ServiceClaim(msgspec.Struct, frozen=True, gc=False):
    """The application of a service, and the node whose labels name it; no node if an orchestrator does."""

    traits: ApplicationTraits
    node: str | None


@dataclass(frozen=True, eq=False)
class Claims:
    """The claims of services, and which tasks are certainly theirs. They are not stored with a snapshot."""

    services: Mapping[str, ServiceClaim]
    """Those that belong to an application, the first claim first. Another object if any changed."""
    is_listed: NDArray[np.bool_]
    """Per task: whether an orchestrator of all nodes lists it, or the collector moved it."""


NO_CLAIMS = Claims({}, np.empty(0, dtype=np.bool_))
