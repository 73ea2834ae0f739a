"""Samples and the request for a fit, which runs in a separate process."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from powermodels.common.interface import Load
from powermodels.models.basis import row
from powermodels.models.fitted import Range, ScopeName, Training, Watts
from wire.resources import Quantities

Kind = Literal["curve", "linear", "table"]


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Load and metered power of one interval."""

    seconds: float
    """Time on any monotonic clock."""
    watts: Watts
    load: Load
    group: str = ""
    """Workload or phase that the sample belongs to. Each group has the same weight in a fit."""


class FitRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The input of a fit."""

    samples: tuple[Sample, ...]
    kind: Kind = "curve"
    host: str
    scaling: Quantities = Quantities()
    metered: ScopeName = "NODE"
    cap_watts: Watts | None = None
    current_group: str | None = None
    """The group with the current samples."""
    current_weight: float = 1.0
    """Weight of that group relative to all others together."""


def training_of(samples: Sequence[Sample], features: Iterable[str], cap_watts: float | None) -> Training:
    """The ranges that these samples cover."""
    names = tuple(features)
    columns = zip(*(row(names, sample.load) for sample in samples), strict=True)
    watts = [sample.watts for sample in samples]
    return Training(
        samples=len(samples),
        watts=Range(min(watts), max(watts)),
        features={name: Range(min(column), max(column)) for name, column in zip(names, columns, strict=True)},
        cap_watts=cap_watts,
    )
