"""What is measured and what is asked of a fit: the words between the agent and whoever fits for it."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from powermodels.common.interface import Load
from powermodels.models.basis import row
from powermodels.models.fitted import Range, ScopeName, Training, Watts
from wire.resources import Quantities

Kind = Literal["linear", "table", "curve", "best"]


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One interval: what ran, and what a meter said to it."""

    seconds: float
    """On any clock that only goes forward."""
    watts: Watts
    load: Load
    group: str = ""
    """The workload, the phase of a ramp: what belongs together. A fit counts every group the same."""


class FitRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """All that a fit needs to know."""

    samples: tuple[Sample, ...]
    kind: Kind = "curve"
    host: str
    scaling: Quantities = Quantities()
    metered: ScopeName = "NODE"
    cap_watts: Watts | None = None
    current_group: str | None = None
    """The group that tells of now."""
    current_weight: float = 1.0
    """How much that one counts, against all the others together."""


def training_of(samples: Sequence[Sample], features: Iterable[str], cap_watts: float | None) -> Training:
    """What these samples cover."""
    names = tuple(features)
    columns = zip(*(row(names, sample.load) for sample in samples), strict=True)
    watts = [sample.watts for sample in samples]
    return Training(
        samples=len(samples),
        watts=Range(min(watts), max(watts)),
        features={name: Range(min(column), max(column)) for name, column in zip(names, columns, strict=True)},
        cap_watts=cap_watts,
    )
