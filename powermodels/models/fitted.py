"""Base of fitted models: their origin and expected error."""

import hashlib
from datetime import datetime
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from powermodels.common.interface import HostFacts, Scope, Terms
from wire.messages import PowerSource
from wire.resources import Quantities

Watts = Annotated[float, Meta(ge=0, le=1e7)]
Ratio = Annotated[float, Meta(ge=0, le=1)]

# The power of a model is limited to about the range of its training.
_BELOW_LOWEST = 0.9
_ABOVE_HIGHEST = 1.1

ScopeName = Literal["NODE", "CPU_AND_MEMORY", "CPU", "PART"]


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """The lowest and the highest value."""

    low: float
    high: float


class Training(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The samples that a model was fitted to."""

    samples: int
    watts: Range
    features: dict[str, Range]
    """Range of each feature; beyond it, the model extrapolates."""
    cap_watts: Watts | None = None
    """Maximum power of the machine, if known."""

    @property
    def floor_watts(self) -> float:
        return max(0.0, _BELOW_LOWEST * self.watts.low)

    @property
    def ceiling_watts(self) -> float:
        highest_watts = _ABOVE_HIGHEST * self.watts.high
        return max(0.0, highest_watts if self.cap_watts is None else min(highest_watts, self.cap_watts))

    def bounded(self, terms: Terms) -> Terms:
        """Limit the total of the terms; idle power, which does not depend on load, is kept first."""
        idle_watts = min(max(terms.idle_watts, self.floor_watts), self.ceiling_watts)
        if terms.dynamic_watts <= 0:
            return Terms(idle_watts, 0.0)
        allowed_watts = min(max(terms.watts, idle_watts), self.ceiling_watts) - idle_watts
        share = allowed_watts / terms.dynamic_watts
        return Terms(idle_watts, *(watts * share for watts in terms.dynamic))


class Origin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Origin of a model."""

    features: tuple[str, ...]
    scaling: Quantities
    """Capacities of the host that its loads are ratios of; absent if unknown."""
    training: Training
    error_ratio: Ratio
    """Mean relative error on samples that it was not fitted to."""
    made: datetime
    host: str
    """Fingerprint of the machine that it was fitted on."""
    metered: ScopeName = "NODE"
    """Scope of the meter that it was fitted to."""


class FittedModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """A model that was fitted to a meter; each kind is a subclass."""

    source: ClassVar = PowerSource.MODEL
    version: Literal[1] = 1
    origin: Origin

    @property
    def scope(self) -> Scope:
        return Scope[self.origin.metered]

    @property
    def error_ratio(self) -> float:
        return self.origin.error_ratio

    def describe(self) -> str:
        kind = self.__struct_config__.tag
        return (
            f"{kind} model of {self.scope.value}, fitted to {self.origin.training.samples} samples on "
            f"{self.origin.made:%Y-%m-%d}, ±{self.error_ratio:.0%}"
        )


def fingerprint(facts: HostFacts) -> str:
    """Identify a machine by its hardware: another CPU or more memory changes it, a new kernel does not."""
    gibibytes = round(facts.memory_bytes / (1 << 30))
    parts = (facts.cpu_model, facts.sockets, facts.cores, facts.threads, gibibytes, facts.hypervisor)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
