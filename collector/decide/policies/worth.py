"""Whether a change is worth what it costs: one rule for all policies.

A gain is a rate: watts saved, or seconds of containers' time gained per second. A cost is an amount: the
joules or the seconds of containers' time that moves and switching take. The gain, less its error, must bring
in the cost within the payback time, times the caution of the policy.

A container that was moved, or a node that was switched on, counts as staying only as long as it has stayed
since. So the next change must pay within that time: nothing moves again for less.

Costs come from the cluster: how long moves took here, how long nodes took to boot, what containers draw.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from collector.common.arrays import Floats, Rows
from collector.decide.policies.interface import Stability
from collector.decide.policies.scoring import share_or_zero
from collector.snapshot.columns import CPU, MEMORY
from collector.snapshot.tables import NOWHERE, Snapshot

COPY_BYTES_PER_SECOND = 125e6
"""Rate at which a container fills its memory again on another node: a link of one gigabit. It counts until a
move was observed."""


class Measure(Enum):
    """What a gain and its cost are measured in."""

    POWER = "W", "J"
    TIME = "s/s of container time", "s"

    def rate(self, value: float) -> str:
        return f"{_rounded(value)} {self.value[0]}"

    def amount(self, value: float) -> str:
        if self is Measure.POWER and value >= 10_000:  # noqa: PLR2004 - five digits
            return f"{_rounded(value / 1000)} kJ"
        return f"{_rounded(value)} {self.value[1]}"


def _rounded(value: float) -> str:
    """Format a number with three digits, without an exponent."""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"  # noqa: PLR2004 - three digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """The gain and the cost of a change."""

    measure: Measure
    gain: float
    error: float = 0.0
    """Error of the gain."""
    cost: float
    needed: float
    """The gain from which on it pays for the cost."""

    @property
    def pays(self) -> bool:
        return self.gain - self.error > self.needed

    @property
    def missing(self) -> float:
        """By how much the gain is too small; 0 if it pays."""
        return max(self.needed + self.error - self.gain, 0.0)

    def sentence(self) -> str:
        """State the gain, the cost, and what the gain must exceed."""
        error = f" ±{_rounded(self.error)}" if self.error else ""
        must = self.needed + self.error
        return (
            f"gains {self.measure.rate(self.gain)}{error} for {self.measure.amount(self.cost)};"
            f" it must gain more than {self.measure.rate(must)}"
        )


def weigh(  # noqa: PLR0913 - the terms of the rule
    measure: Measure,
    gain: float,
    costs: Floats,
    stays: Floats,
    stability: Stability,
    *,
    error: float = 0.0,
) -> Worth:
    """Weigh a gain against costs; `stays` is how long each lasts, as far as is known."""
    seconds = np.minimum(stays, stability.payback_seconds)
    needed = np.divide(costs, seconds, out=np.where(costs > 0, np.inf, 0.0), where=seconds > 0)
    return Worth(
        measure=measure,
        gain=gain,
        error=error,
        cost=float(costs.sum()),
        needed=stability.caution * float(needed.sum()),
    )


def saved_power(  # noqa: PLR0913 - what is weighed
    snapshot: Snapshot,
    stability: Stability,
    gain_watts: float,
    *,
    moved: Rows | Sequence[int] = (),
    off: Sequence[int] = (),
    error_watts: float = 0.0,
    risk_joules: float = 0.0,
) -> Worth:
    """Weigh the power that moves save, and nodes that are switched off.

    `risk_joules` is the energy of the moves that are expected to follow within the payback time.
    """
    tasks, nodes = np.asarray(moved, dtype=np.intp), np.asarray(off, dtype=np.intp)
    costs = np.concatenate((move_joules(snapshot, tasks), switch_joules(snapshot, nodes), [risk_joules]))
    stays = np.concatenate((stayed_seconds(snapshot, tasks), on_seconds(snapshot, nodes), [np.inf]))
    return weigh(Measure.POWER, gain_watts, costs, stays, stability, error=error_watts)


def saved_by_switching_off(snapshot: Snapshot, stability: Stability, row: int) -> Worth | None:
    """Weigh the power of a node where nothing runs; None if it is unknown, which is more than none."""
    watts = float(snapshot.nodes.watts[row])
    return None if np.isnan(watts) else saved_power(snapshot, stability, watts, off=[row])


def gained_time(snapshot: Snapshot, stability: Stability, gain: float, moved: Rows | Sequence[int]) -> Worth:
    """Weigh the time that containers gain per second against that in which the moved ones start again."""
    tasks = np.asarray(moved, dtype=np.intp)
    costs = move_seconds(snapshot, tasks)
    return weigh(Measure.TIME, gain, costs, stayed_seconds(snapshot, tasks), stability)


def stayed_seconds(snapshot: Snapshot, tasks: Rows) -> Floats:
    """Return how long containers that were moved have stayed since; infinite for the others."""
    was_moved = snapshot.tasks.came_from[tasks] != NOWHERE
    return np.where(was_moved, snapshot.tasks.settled_seconds[tasks], np.inf)


def on_seconds(snapshot: Snapshot, nodes: Rows) -> Floats:
    """Return how long nodes that were switched on have been on since; infinite for the others."""
    since, names = snapshot.experience.on_since, snapshot.nodes.names
    ages = [snapshot.at - since.get(names[row], -np.inf) for row in nodes.tolist()]
    return np.maximum(np.array(ages, dtype=np.float64), 0.0)


def move_seconds(snapshot: Snapshot, tasks: Rows) -> Floats:
    """Return how long each move takes: what moves of its service took, or else all, or else a guess."""
    known, services = snapshot.experience, snapshot.services
    seconds: Floats = np.nan_to_num(snapshot.tasks.envelope[tasks, MEMORY]) / COPY_BYTES_PER_SECOND
    if known.move_seconds is not None:
        seconds = np.full(tasks.size, known.move_seconds)
    for name, took in known.move_seconds_of.items():
        row = services.index.get(name, NOWHERE)
        if row != NOWHERE:
            seconds[snapshot.tasks.service[tasks] == row] = took
    return seconds


def move_joules(snapshot: Snapshot, tasks: Rows) -> Floats:
    """Return the energy of each move: while it lasts, the container draws what it adds to its node twice.

    0 where the node has no power curve.
    """
    nodes, means = snapshot.nodes, np.nan_to_num(snapshot.tasks.mean[tasks], nan=0.0)
    on = snapshot.tasks.node[tasks]
    capacity = nodes.capacity[on]
    ratios = share_or_zero(np.fmax(nodes.used[on], means), capacity)
    without = ratios - share_or_zero(means, capacity)
    watts = nodes.power.watts(ratios, on) - nodes.power.watts(without, on)
    joules: Floats = np.nan_to_num(np.maximum(watts, 0.0), nan=0.0) * move_seconds(snapshot, tasks)
    return joules


def switch_joules(snapshot: Snapshot, nodes: Rows) -> Floats:
    """Return the energy of switching each node off and on again, in which it does no work.

    It draws its idle power until it is off, and at most its full power while it boots. 0
    without a power curve.
    """
    known, power = snapshot.experience, snapshot.nodes.power
    ratios = np.zeros((nodes.size, len(snapshot.nodes.capacity.T)))
    ratios[:, CPU] = 1.0
    watts = power.idle_watts[nodes] * known.shutdown_seconds + power.watts(ratios, nodes) * known.boot_seconds
    joules: Floats = np.nan_to_num(watts, nan=0.0)
    return joules
