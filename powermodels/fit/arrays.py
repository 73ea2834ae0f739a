"""Samples as arrays, one set per workload: the input of fits and of their comparison."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from powermodels.models.basis import BASES, row
from powermodels.models.samples import Sample

Floats = NDArray[np.float64]

# Thinning evenly in time keeps a fit fast: more samples of one workload add little.
MAX_PER_GROUP = 200
# A recording of one workload is split into this many blocks of time, about as many as others have workloads.
_BLOCKS = 10
_COLUMNS = {name: index for index, name in enumerate(BASES)}


@dataclass(frozen=True, slots=True)
class Workload:
    """The samples of one group: each function of load (`BASES`) in a column, and the watts."""

    values: Floats
    watts: Floats
    weight: float = 1.0
    """The weight of all its samples together in a fit."""

    def column(self, name: str) -> Floats:
        return self.values[:, _COLUMNS[name]]

    def design(self, features: Sequence[str]) -> Floats:
        """A column of ones for idle power, then the features."""
        return np.column_stack((np.ones(len(self.watts)), *(self.column(name) for name in features)))

    @property
    def sample_weights(self) -> Floats:
        """Factors that make squared errors relative, and weight workloads."""
        return self.weight / (len(self.watts) * relative_to(self.watts) ** 2)

    def error_ratio(self, watts: Floats) -> float:
        """The mean relative error of predicted watts."""
        return float(np.mean(np.abs(watts - self.watts) / relative_to(self.watts)))


def workloads_of(samples: Iterable[Sample], most: int = MAX_PER_GROUP) -> list[Workload]:
    """The samples by group, thinned."""
    return [
        Workload(
            np.array([row(BASES, sample.load) for sample in kept], dtype=np.float64),
            np.array([sample.watts for sample in kept], dtype=np.float64),
        )
        for kept in (thinned(group, most) for group in by_group(samples).values())
    ]


def by_group(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """The samples of each group, in their order."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    return groups


def thinned(samples: Sequence[Sample], most: int) -> Sequence[Sample]:
    """About `most` samples, evenly over time."""
    return samples[:: max(1, len(samples) // most)]


def weighted(workloads: Sequence[Workload], current: int | None, current_weight: float) -> list[Workload]:
    """All workloads count the same, but the current one counts `current_weight` times all others together."""
    if current is None:
        return list(workloads)
    weight = current_weight * max(1, len(workloads) - 1)
    return [
        replace(workload, weight=weight if index == current else 1.0)
        for index, workload in enumerate(workloads)
    ]


def parts_of(workloads: Sequence[Workload]) -> list[Workload]:
    """The parts to leave out in turn: workloads, or blocks of time of a single workload."""
    return list(workloads) if len(workloads) > 1 else [part for each in workloads for part in _blocks(each)]


def load_ranges(workload: Workload) -> list[Workload]:
    """A single workload, split by CPU usage into ranges with the same number of samples."""
    order = np.argsort(workload.column("cpu"), kind="stable")
    return _blocks(Workload(workload.values[order], workload.watts[order]))


def _blocks(workload: Workload) -> list[Workload]:
    values = np.array_split(workload.values, _BLOCKS)
    watts = np.array_split(workload.watts, _BLOCKS)
    return [Workload(*block) for block in zip(values, watts, strict=True) if len(block[1])]


def relative_to(watts: Floats) -> Floats:
    """The divisor of errors; below a watt, errors are absolute."""
    return np.maximum(1.0, watts)
