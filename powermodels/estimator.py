"""The estimator: one host's watts, from the best that it has.

What `watts` means depends on the source, and the source is always said:

- prior and model: what the whole machine draws at the wall; inside a virtual machine, the guest's share.
- rapl: what the CPU packages and, where counted, the memory draw; nothing is added for the board, disks,
  fans and the power supply (78 % more at the wall, in the median, on the one server with both meters that
  the project has data of, from 14 % to 151 % by load). A measurement stays a measurement: its error is
  that of what it sees, and a gap says what it does not see.

A meter that is silent for an interval leaves it to the model, with the model's source and error; the two
may differ in scope, so a change of source can be a step in watts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from powermodels.attribution import container_error_ratio, fit_to_meter, split
from powermodels.facts import read_host_facts
from powermodels.interface import Estimate, HostFacts, Load, Meter, Model, Scope, Share
from powermodels.meters import find_meters
from powermodels.models import choose_model
from wire.messages import Gap


class Estimator:
    """Watts of a host and its containers, sample by sample."""

    def __init__(self, facts: HostFacts, model: Model, meters: Sequence[Meter], gaps: Sequence[Gap]) -> None:
        self.facts = facts
        self._model = model
        self._meters = tuple(meters)
        self._gaps = tuple(gaps)

    @classmethod
    def for_host(cls, proc: Path, sys: Path) -> Self:
        """The best that can be had for the host under these roots."""
        facts = read_host_facts(proc, sys)
        meters, gaps = find_meters(sys, facts.hypervisor)
        return cls(facts, choose_model(facts), meters, gaps)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What cannot be measured at present, and why."""
        silent = [meter.gap for meter in self._meters if meter.gap is not None]
        best = next((meter for meter in self._meters if meter.gap is None), None)
        unseen: list[Gap] = []
        if best is not None and best.scope is not Scope.NODE:
            unseen.append(
                Gap(
                    "power of the whole machine", f"{best.source} sees {best.scope.value}, not the rest of it"
                )
            )
        return (*self._gaps, *silent, *unseen)

    def describe(self) -> list[str]:
        """What the watts stand on, in sentences for people."""
        working = [meter.describe() for meter in self._meters if meter.gap is None]
        return [f"power: {sentence}" for sentence in (*working, self._model.describe())]

    def begin(self, monotonic_seconds: float) -> None:
        """Start the meters' first interval, so that the first estimate can be a measured one."""
        for meter in self._meters:
            meter.watts(monotonic_seconds)

    def estimate(self, monotonic_seconds: float, load: Load, containers: Mapping[str, Load]) -> Estimate:
        """The node's draw since the last call (or `begin`), and who drew it."""
        terms = self._model.terms(load)
        source, error_ratio = self._model.source, self._model.error_ratio
        # All are read, since each measures from one call to the next; the first that answers is the best.
        readings = [(meter, meter.watts(monotonic_seconds)) for meter in self._meters]
        for meter, metered_watts in readings:
            if metered_watts is not None:
                terms = fit_to_meter(terms, metered_watts, meter.scope)
                source, error_ratio = meter.source, meter.error_ratio
                break
        parts = split(terms, load, containers)
        share_error_ratio = container_error_ratio(terms, error_ratio)
        return Estimate(
            watts=terms.watts,
            idle_watts=parts.idle_watts,
            system_watts=parts.system_watts,
            source=source,
            error_ratio=error_ratio,
            containers={name: Share(watts, share_error_ratio) for name, watts in parts.containers.items()},
        )
