"""A policy at several values of its knob, compared with its peers: energy against time short against moves.

`plan_sweep` lists the runs, `pareto_of` compares their results. A point is dominated if another is no worse
in energy, time short, moves and placed containers, and better in one of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, product
from math import floor, log10
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import msgspec

from collector.common.text import counted
from collector.decide.policies.interface import Knob
from replay.contenders.table import POLICIES
from replay.reporting.charts import Dot
from replay.reporting.tables import Row
from replay.setup.scenario import Scenario
from replay.simulation.policy_runs import resolve_runs
from replay.simulation.results import PolicyResult
from wire.errors import UserError

_STEPS = (1, 2, 5)
_SERIES_MARKS = "123456789" + ascii_lowercase


@dataclass(frozen=True, slots=True)
class Sweep:
    """The runs of a policy over its knob."""

    policy: str
    """The policy as the user named it, with settings if there are any."""
    knob: str
    default: float
    """The value without `--pareto`: that of the scenario, or the default of the policy."""
    runs: dict[float, str]
    """For each value, the name of its run."""


class ParetoPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run."""

    energy_kwh: float
    short_ratio: float
    """Share of the time that nodes were on in which they were short of the scarcest resource."""
    migrations: int
    placed_ratio: float
    dominated: bool


class SweepPoint(ParetoPoint, frozen=True, kw_only=True):
    """The policy at one value of its knob."""

    value: float
    is_default: bool


class PeerPoint(ParetoPoint, frozen=True, kw_only=True):
    """Another policy at its own settings."""

    policy: str


class Pareto(msgspec.Struct, frozen=True, kw_only=True):
    """All points, the series in the order of its values."""

    policy: str
    knob: str
    points: list[SweepPoint]
    peers: list[PeerPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedPoint:
    """A point as tables and charts show it."""

    mark: str
    """One character."""
    policy: str
    setting: str
    """The knob with its value; empty for a peer."""
    point: ParetoPoint
    dominated_by: str
    """The marks of all points that dominate it."""

    @property
    def is_default(self) -> bool:
        return isinstance(self.point, SweepPoint) and self.point.is_default

    @property
    def name(self) -> str:
        return f"{self.policy} {self.setting}{' (default)' if self.is_default else ''}".rstrip()

    @property
    def label(self) -> str:
        """The short name of the run: the value of the knob, or the name of the peer."""
        return self.setting.partition("=")[2] or self.policy


def plan_sweep(policy: str, scenario: Scenario) -> Sweep:
    """Plan the runs of a policy over its knob; raises `UserError` if it has none."""
    (policy_run,) = resolve_runs([policy], scenario)
    chosen = policy_run.chosen
    if (knob := chosen.policy.knob) is None:
        names = ", ".join(each.name for each in POLICIES.values() if each.knob is not None)
        raise UserError(
            f"policy {chosen.policy.name!r} has no setting that trades energy against time short: "
            f"use --pareto with one of {names}"
        )
    default = getattr(chosen.settings, knob.setting)
    runs = {
        value: policy if value == default else f"{policy}:{knob.setting}={value:g}"
        for value in series(knob, default)
    }
    return Sweep(policy, knob.setting, default, runs)


def series(knob: Knob, default: float) -> list[float]:
    """The values 1, 2 and 5 of each power of ten in the range of the knob, and the default."""
    powers = range(floor(log10(knob.lowest)), floor(log10(knob.highest)) + 1)
    values = (float(f"{step}e{power}") for power, step in product(powers, _STEPS))
    return sorted({default, *(value for value in values if knob.lowest <= value <= knob.highest)})


def pareto_of(sweep: Sweep, policies: Mapping[str, PolicyResult], names: Sequence[str]) -> Pareto:
    """Compare the runs of a sweep with each other and with the peers among these names."""
    peers = [name for name in dict.fromkeys(names) if name not in sweep.runs.values()]
    found = [_figures(policies[name]) for name in (*sweep.runs.values(), *peers)]
    for figures, better in zip(found, dominators([_costs(each) for each in found]), strict=True):
        figures["dominated"] = bool(better)
    of_peers = found[len(sweep.runs) :]
    return Pareto(
        policy=sweep.policy,
        knob=sweep.knob,
        points=[
            SweepPoint(value=value, is_default=value == sweep.default, **figures)
            for value, figures in zip(sweep.runs, found, strict=False)
        ],
        peers=[PeerPoint(policy=name, **figures) for name, figures in zip(peers, of_peers, strict=True)],
    )


def _figures(result: PolicyResult) -> dict[str, Any]:
    return {
        "energy_kwh": result.energy_kwh,
        "short_ratio": max(result.overloaded_node_time_ratio.values()),
        "migrations": result.migrations,
        "placed_ratio": result.placed_ratio,
    }


def _costs(figures: Mapping[str, float]) -> tuple[float, ...]:
    """The figures to minimize. Containers without a node cost no energy, so they count as well."""
    return figures["energy_kwh"], figures["short_ratio"], figures["migrations"], -figures["placed_ratio"]


def dominators(costs: Sequence[Sequence[float]]) -> list[list[int]]:
    """For each point, the places of the points that are no worse in any cost and better in one."""
    return [[place for place, other in enumerate(costs) if _dominates(other, each)] for each in costs]


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(left <= right for left, right in pairs) and any(left < right for left, right in pairs)


def marked(pareto: Pareto) -> list[MarkedPoint]:
    """The points with marks: digits for the series, capital letters for peers."""
    points: list[ParetoPoint] = [*pareto.points, *pareto.peers]
    marks = [
        *(mark for mark, _ in zip(cycle(_SERIES_MARKS), pareto.points, strict=False)),
        *(mark for mark, _ in zip(cycle(ascii_uppercase), pareto.peers, strict=False)),
    ]
    better = dominators([_costs(msgspec.structs.asdict(each)) for each in points])
    return [
        MarkedPoint(
            mark=mark,
            policy=point.policy if isinstance(point, PeerPoint) else pareto.policy,
            setting=f"{pareto.knob}={point.value:g}" if isinstance(point, SweepPoint) else "",
            point=point,
            dominated_by=" ".join(marks[place] for place in places),
        )
        for mark, point, places in zip(marks, points, better, strict=True)
    ]


def pareto_rows_of(points: Sequence[MarkedPoint]) -> Iterator[Row]:
    """A row per point, for a table."""
    for each in points:
        point = each.point
        yield {
            "POINT": f"{each.mark} {each.name}",
            "kWh": f"{point.energy_kwh:.{2 if point.energy_kwh >= 1 else 4}f}",
            "SHORT %": f"{100 * point.short_ratio:.3f}",
            "MOVES": str(point.migrations),
            "PLACED %": f"{100 * point.placed_ratio:.1f}",
            "DOMINATED BY": each.dominated_by or "-",
        }


def dots_of(points: Sequence[MarkedPoint], colours: Mapping[str, int]) -> list[Dot]:
    """The points for a plot: time short across, energy upwards, moves as the area."""
    return [
        Dot(
            x=100 * each.point.short_ratio,
            y=each.point.energy_kwh,
            size=each.point.migrations,
            mark=each.mark,
            label=each.label,
            hover=_hover(each),
            colour=colours.get(each.policy, 0),
            is_filled=not each.point.dominated,
            is_ringed=each.is_default,
            is_joined=isinstance(each.point, SweepPoint),
        )
        for each in points
    ]


def _hover(each: MarkedPoint) -> str:
    point = each.point
    return (
        f"{each.name}: {point.energy_kwh:.2f} kWh, "
        f"short {100 * point.short_ratio:.3f} % of the time, {counted(point.migrations, 'move')}, "
        f"{100 * point.placed_ratio:.1f} % of containers placed; "
        f"{'dominated' if point.dominated else 'efficient'}"
    )


def summary(points: Sequence[MarkedPoint]) -> str:
    """Which points are efficient, as one sentence."""
    efficient = ", ".join(each.mark for each in points if not each.point.dominated)
    return f"Efficient (dominated by no other point): {efficient}."
