"""What drivers put into the live tables, and the record of one node that comes out of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from collector.snapshot.columns import Four
from wire.resources import Quantities

RegionLabel = Literal["LEE", "DEE", "EED"]
GenerationLabel = Literal["any", "nursery", "young", "old"]
REGION_LABELS: tuple[RegionLabel, ...] = ("LEE", "DEE", "EED")
GENERATION_LABELS: tuple[GenerationLabel, ...] = ("any", "nursery", "young", "old")
"""By the codes of `Region` and `Generation`."""


class NodePlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a node that policies use, in addition to its usage."""

    region: RegionLabel
    """Energy efficiency by the higher of CPU and memory usage: `LEE` (low) below 50%, `DEE` (desired), `EED`
    (degraded) above 85%."""
    task_class: int | None
    """Strictest SLA class of its containers, 1-4; null without containers."""
    allocated: Quantities
    """Sum of the reservations of its containers."""
    overbooking_ratio: float
    """Reserved CPU or memory divided by capacity, whichever is higher."""
    generation: GenerationLabel
    """Generation of the node in GenPack; `any` without generations."""
    accepts: bool
    """Whether it accepts containers: not drained, not paused, not excluded by a label."""
    on: bool
    """False if it is switched off to save energy."""
    failures: int
    """Containers that recently failed on the node; older failures count less."""
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The resources that an orchestrator promised a container; they override the limits from its node."""

    node: str
    container: str
    requested: Four
    """Promised at its start; NaN for a resource without a promise."""
    allocated: Four
    """Promised now, after cuts."""
    came_from: str | None = None
    """The node it was moved from."""
    first_started_at: float | None = None
    """When the first container started that it replaces; None if it replaces none."""
    stays: bool = False
    """Whether the orchestrator pins it to its node; otherwise its labels decide whether it may be moved."""
    cuttable: bool = True
    """Whether a cut of its limits frees room for others, also in the accounts of the orchestrator."""
    everywhere: bool = False
    """Whether the orchestrator runs one instance on every node; otherwise its labels set its kind."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of its service, which override those of the container."""
    namespace: str = ""
    """The namespace of its service in Kubernetes; empty elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """A container that replaced another one in a move: its usage is that of its predecessor."""

    node: str
    container: str
    from_node: str
    predecessor: str
