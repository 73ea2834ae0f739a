"""The cost of a state and an action, as in ge-kube: a broken target, resources, and changes."""

from collector.features.elastic.scaling.interface import Target

ACTIONS = ("-CPU limit", "-1 replica", "no change", "+1 replica", "+CPU limit")
"""In the order of ge-kube. Of actions with equal costs, the first is taken."""
CHANGES = ((0, -1), (-1, 0), (0, 0), (1, 0), (0, 1))
"""Per action: how many replicas and how many steps of the CPU limit it adds."""
NO_CHANGE = CHANGES.index((0, 0))


def resource_cost(target: Target, replicas: int, limit_cores: float, highest_cores: float) -> float:
    """Resources of this size, relative to those of the largest allowed size."""
    return replicas * limit_cores / (target.replicas_max * highest_cores)


def adaptation_cost(before: int, after: int, *, vertical: bool) -> float:
    """1 for a change of the limit, which replaces every replica; the share of new replicas for one more."""
    if vertical:
        return 1.0
    return 1.0 / max(1, before) if after > before else 0.0
