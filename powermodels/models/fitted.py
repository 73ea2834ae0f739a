"""What every fitted model carries beside its numbers: where it comes from and how far to trust it."""

import hashlib
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from powermodels.common.interface import HostFacts, Scope, Terms
from powermodels.models.basis import bounded
from wire.messages import PowerSource
from wire.resources import Quantities

Watts = Annotated[float, Meta(ge=0, le=1e7)]
Ratio = Annotated[float, Meta(ge=0, le=1)]

# A model is not believed far beyond what it has seen.
_BELOW_LOWEST = 0.9
_ABOVE_HIGHEST = 1.1

ScopeName = Literal["NODE", "CPU_AND_MEMORY", "CPU", "PART"]


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """The lowest and the highest of something."""

    low: float
    high: float


class Training(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a model was fitted to."""

    samples: int
    watts: Range
    features: dict[str, Range]
    """How far each feature reached; beyond, the model extrapolates."""
    cap_watts: Watts | None = None
    """What the machine cannot exceed, where that is known."""

    @property
    def floor_watts(self) -> float:
        return max(0.0, _BELOW_LOWEST * self.watts.low)

    @property
    def ceiling_watts(self) -> float:
        highest_watts = _ABOVE_HIGHEST * self.watts.high
        return max(0.0, highest_watts if self.cap_watts is None else min(highest_watts, self.cap_watts))


class Origin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a model comes from."""

    features: tuple[str, ...]
    scaling: Quantities
    """The host's capacities, by which its loads were divided; what is absent was not known."""
    training: Training
    error_ratio: Ratio
    """Mean relative error on samples it was not fitted to."""
    made: datetime
    host: str
    """The fingerprint of the machine it was fitted on."""
    metered: ScopeName = "NODE"
    """What the meter saw that it was fitted to."""


class FittedModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """A model that was fitted to a meter's readings; its subclasses are the kinds."""

    version: Literal[1] = 1
    origin: Origin

    @property
    def source(self) -> PowerSource:
        return PowerSource.MODEL

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

    def bounded(self, terms: Terms) -> Terms:
        """The terms, held within what the model has seen."""
        return bounded(terms, self.origin.training.floor_watts, self.origin.training.ceiling_watts)


def fingerprint(facts: HostFacts) -> str:
    """What a machine is to a model: another CPU or more memory makes it another, a new kernel does not."""
    gibibytes = round(facts.memory_bytes / (1 << 30))
    parts = (facts.cpu_model, facts.sockets, facts.cores, facts.threads, gibibytes, facts.hypervisor)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
