"""Number of nodes that GenPack, binpack and spread need, and the duration of one of GenPack's phases.

Spread and binpack place the containers one by one as they arrive, with the functions that answer a request.
GenPack has profiled all of them in its nursery and packs them together. All three know the demand of each.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from bench.hints.genpack import pack
from collector.common.arrays import Floats, Rows
from collector.decide.policies.actions import Move
from collector.decide.policies.interface import Request
from collector.features.genpack.phase import GenPackSettings
from collector.features.genpack.policies import rebalance
from collector.snapshot.tables import NOWHERE, Generation
from replay.contenders.table import POLICIES
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.errors import UserError
from wire.resources import RESOURCES, Quantities

LEAST_IN_ORDER_PERCENT = 95.0
MOST_PHASE_SECONDS = 10.0
_CORES, _BYTES, _RATE = 16.0, 64 << 30, 1e9
_CAPACITY = np.array([_CORES, _BYTES, _RATE, _RATE])
_FEWEST, _MOST = 10, 80
_HEAVY, _LIGHT = (0.2, 0.5), (0.01, 0.15)
"""Shares of a node that a container takes: of its heaviest resource, and of the others."""
_PER_NODE = 25
EXAMPLE: tuple[str, ...] = tuple("ccccmmccmmmm")
"""The paper's motivating example, in the order of arrival: `c` is heavy on CPU, `m` on memory."""
EXAMPLE_NEEDS = {"c": (2.0, 1.0, 0.0, 0.0), "m": (1.0, 2.0, 0.0, 0.0)}
EXAMPLE_CAPACITY = np.full((3, 4), 6.0)
"""Three nodes; each holds three containers of one kind, or two of each."""


@dataclass(frozen=True, slots=True)
class NodesUsed:
    """Nodes that each policy uses for one set of containers."""

    genpack: int
    binpack: int
    spread: int

    @property
    def in_order(self) -> bool:
        """Whether the paper's claim holds."""
        return self.genpack <= self.binpack <= self.spread


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--instances", type=int, default=1000, help="random sets of containers to pack")
    parser.add_argument("--containers", type=int, default=50_000, help="containers in the measured phase")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random sets")


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Pack the example and the random sets, then measure the phase."""
    if options.instances < 1 or options.containers < 1:
        raise UserError("--instances and --containers must be at least 1")
    generator = np.random.default_rng(options.seed)
    used: list[NodesUsed] = []
    with progress.track("sets of containers", options.instances) as show:
        for number in range(options.instances):
            used.append(compare(random_needs(generator)))
            show(number + 1)
    progress.say(f"packing: a phase over {options.containers} containers")
    seconds, moved = time_phase(options.containers, generator)
    settings = {
        "instances": options.instances,
        "containers_per_instance": f"{_FEWEST} to {_MOST}",
        "needs": "20-50 % of a node of one resource, 1-15 % of the others",
        "phase_containers": options.containers,
        "phase_moves": moved,
        "seconds": "of CPU time",
    }
    return Result((*_example_figures(), *_order_figures(used), _phase_figure(seconds)), settings)


def _example_figures() -> tuple[Figure, ...]:
    needs = np.array([EXAMPLE_NEEDS[kind] for kind in EXAMPLE])
    placed = {
        "genpack": pack(needs, EXAMPLE_CAPACITY),
        "binpack": one_by_one("binpack", needs, EXAMPLE_CAPACITY),
        "spread": one_by_one("spread", needs, EXAMPLE_CAPACITY),
    }
    return tuple(
        Figure(
            name=f"example_placed_by_{name}",
            value=float((targets != NOWHERE).sum()),
            unit="of 12 containers",
            at_least=12.0 if name == "genpack" else None,
        )
        for name, targets in placed.items()
    )


def _order_figures(used: Sequence[NodesUsed]) -> tuple[Figure, ...]:
    genpack, binpack, spread = (
        float(np.mean([getattr(each, name) for each in used])) for name in ("genpack", "binpack", "spread")
    )
    in_order = 100.0 * sum(each.in_order for each in used) / len(used)
    return (
        Figure(name="in_order_percent", value=in_order, unit="%", at_least=LEAST_IN_ORDER_PERCENT),
        Figure(name="mean_nodes_genpack", value=genpack, unit="nodes", at_most=binpack),
        Figure(name="mean_nodes_binpack", value=binpack, unit="nodes", at_most=spread),
        Figure(name="mean_nodes_spread", value=spread, unit="nodes"),
    )


def _phase_figure(seconds: float) -> Figure:
    return Figure(name="phase_seconds", value=seconds, unit="s", at_most=MOST_PHASE_SECONDS)


def random_needs(generator: np.random.Generator) -> Floats:
    """Make containers with mixed demands: each is heavy on one resource."""
    count = int(generator.integers(_FEWEST, _MOST + 1))
    shares = generator.uniform(*_LIGHT, size=(count, len(RESOURCES)))
    shares[np.arange(count), generator.integers(0, len(RESOURCES), count)] = generator.uniform(*_HEAVY, count)
    needs: Floats = shares * _CAPACITY
    return needs


def compare(needs: Floats) -> NodesUsed:
    """Count the nodes that each policy uses; there are as many nodes as containers."""
    capacity = np.tile(_CAPACITY, (len(needs), 1))
    return NodesUsed(
        genpack=_count(pack(needs, capacity)),
        binpack=_count(one_by_one("binpack", needs, capacity)),
        spread=_count(one_by_one("spread", needs, capacity)),
    )


def one_by_one(policy_name: str, needs: Floats, capacity: Floats) -> Rows:
    """Place each container as it arrives; returns its node, or `NOWHERE` if none is left."""
    policy = POLICIES[policy_name]
    assert policy.place is not None
    facts = [NodeFacts(name=f"{row:04}", capacity=_quantities(each)) for row, each in enumerate(capacity)]
    snapshot, settings = assemble(facts), policy.settings()
    taken, tasks = np.zeros_like(capacity), np.zeros(len(capacity), dtype=np.int32)
    targets = np.full(len(needs), NOWHERE, dtype=np.intp)
    for turn, need in enumerate(needs):
        nodes = replace(snapshot.nodes, allocated=taken, envelope_sum=taken, tasks=tasks)
        wants = _quantities(need)
        request = Request(demand=wants, reserve=wants, known=True)
        best = policy.place(replace(snapshot, nodes=nodes, turn=turn), request, settings).best
        if best is not None:
            targets[turn] = best
            taken[best] += need
            tasks[best] += 1
    return targets


def time_phase(containers: int, generator: np.random.Generator) -> tuple[float, int]:
    """CPU seconds of a phase in which all containers leave the nursery, and the number of moves."""
    shares = generator.uniform(*_LIGHT, size=(containers, len(RESOURCES)))
    needs = [_quantities(need) for need in shares * _CAPACITY]
    nodes = [
        NodeFacts(name=f"{generation.name}-{row:05}", capacity=_quantities(_CAPACITY), generation=generation)
        for generation in (Generation.NURSERY, Generation.YOUNG)
        for row in range(containers // _PER_NODE * 4 + 1)
    ]
    tasks = [
        TaskFacts(
            id=f"{row:06}",
            node=f"{Generation.NURSERY.name}-{row // _PER_NODE:05}",
            envelope=need,
            observed_seconds=86_400.0,
            age_seconds=700.0,
        )
        for row, need in enumerate(needs)
    ]
    snapshot = assemble(nodes, tasks)
    begin = time.process_time()
    plan = rebalance(snapshot, GenPackSettings(moves=containers))
    return time.process_time() - begin, sum(isinstance(action, Move) for action in plan.actions)


def _count(targets: Rows) -> int:
    return np.unique(targets[targets != NOWHERE]).size


def _quantities(row: Floats) -> Quantities:
    cpu, memory, disk, network = row.tolist()
    return Quantities(cpu, round(memory), disk, network)
