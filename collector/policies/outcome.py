"""What a plan would come to: the watts of all nodes before it and after it."""

from collections.abc import Iterable

import numpy as np

from collector.policies.actions import Action, Kill, Move, PowerOff, PowerOn, Start
from collector.policies.scoring import share
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import NOWHERE, Flags, Snapshot


def watts(snapshot: Snapshot, actions: Iterable[Action]) -> tuple[float | None, float | None]:
    """What the cluster draws now, and once these are done; None where a node that counts has told no curve.

    Containers take their mean use with them, and cuts change nothing: a promise draws no watts.
    """
    nodes, tasks = snapshot.nodes, snapshot.tasks
    load, on = np.nan_to_num(nodes.used, nan=0.0), nodes.on.copy()
    for action in actions:
        match action:
            case PowerOn() | PowerOff():
                on[nodes.index[action.node]] = isinstance(action, PowerOn)
            case Move() | Kill() | Start():
                row = tasks.index[action.task]
                if tasks.node[row] != NOWHERE:
                    load[tasks.node[row]] -= tasks.mean[row]
                if action.target is not None:
                    load[nodes.index[action.target]] += tasks.mean[row]
    return _total(snapshot, nodes.used, nodes.on), _total(snapshot, np.maximum(load, 0.0), on)


def _total(snapshot: Snapshot, load: Floats, on: Flags) -> float | None:
    each = snapshot.nodes.power.watts(share(load, snapshot.nodes.capacity))[on]
    total = float(each.sum())
    return None if np.isnan(total) else total
