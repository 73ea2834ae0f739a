"""The power that a decision saved: a prediction from periods before it, and the period after it. Pure.

What the nodes would have used without the decision is predicted from their share of the power of untouched
nodes, which have the same weather: a load that grows everywhere is no loss, one that falls everywhere is no
gain. The prediction is the mean of several periods, not the last one, because decisions follow extreme
moments, after which power returns to its mean by itself. Its error is how much that share varied from one
period to the next without the decision: the 95 % interval of one more period, by Student's distribution.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import takewhile
from math import hypot, sqrt
from statistics import mean, stdev

from collector.history.interface import Account

PERIODS = 6
"""Periods before a decision, each as long as the one after it."""
_QUANTILES = {3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571}
"""Student's distribution: 97.5 %, by the number of periods. Fewer than three tell nothing about the error."""
_COVERED = 0.9
"""Least share of a period that the reports of a node must cover."""

Energy = Mapping[str, Account]
"""The energy account of each node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerEvidence:
    """Energy accounts of all nodes, in periods of the same length."""

    seconds: float
    before: Sequence[Energy]
    """The latest period first."""
    after: Energy
    error_ratio: float = 0.0
    """Expected error of the watts that the nodes report."""


@dataclass(frozen=True, slots=True)
class Saving:
    """Watts saved, and half the width of their 95 % interval; or why that is unknown."""

    watts: float | None = None
    error_watts: float | None = None
    why_unknown: str | None = None


def measure_saving(
    evidence: PowerEvidence,
    changed: frozenset[str],
    *,
    touched: frozenset[str] = frozenset(),
    off_after: frozenset[str] = frozenset(),
    off_before: frozenset[str] = frozenset(),
) -> Saving:
    """Measure what the changed nodes saved.

    Other decisions changed the nodes in `touched`, which are not compared with. Nodes in `off_after` and
    `off_before` were switched off in those periods: they report nothing, and use nothing.
    """
    seconds, others = evidence.seconds, evidence.after.keys() - changed - touched
    after = _total(evidence.after, changed, seconds, off_after)
    if after is None:
        return Saving(why_unknown="the reports of its nodes do not cover the period after it")
    used = [_total(each, changed, seconds, off_before) for each in evidence.before]
    known = [each for each in takewhile(lambda watts: watts is not None, used) if each is not None]
    if len(known) not in _QUANTILES:
        covered = f"{len(known)} of {len(used)}"
        return Saving(why_unknown=f"reports of its nodes cover only {covered} periods before it")
    windows = [*evidence.before[: len(known)], evidence.after]
    alike = {node for node in others if all(_total(each, (node,), seconds) for each in windows)}
    # Without any other node, the nodes are compared with themselves.
    *scales, scale = [_total(each, alike, seconds) or 1.0 for each in windows]
    shares = [watts / other for watts, other in zip(known, scales, strict=True)]
    saved = mean(shares) * scale - after
    spread = _QUANTILES[len(shares)] * stdev(shares) * sqrt(1 + 1 / len(shares)) * scale
    # An error of the meters or the model concerns what is saved, too.
    return Saving(saved, hypot(spread, evidence.error_ratio * saved))


def _total(
    energy: Energy, nodes: Iterable[str], seconds: float, off: AbstractSet[str] = frozenset()
) -> float | None:
    """Return the mean power of some nodes in a period; None if too much of that of one is unknown."""
    total = 0.0
    for node in nodes:
        account = energy.get(node)
        joules, covered = (0.0, 0.0) if account is None else (account.joules, account.covered_seconds or 0.0)
        if node in off:
            total += joules / seconds
        elif covered >= _COVERED * seconds:
            total += joules / covered
        else:
            return None
    return total
