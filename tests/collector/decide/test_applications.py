"""Applications as a whole are admitted as single containers are."""

from collections.abc import Sequence

from collector.decide.policies.admission.record import ShortageRecord
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.policies.interface import ApplicationPlacement, Policy, PolicySettings, Request
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.ranking import place_together
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import CURVE, amount
from tests.collector.snapshot.builders import NodeFacts, assemble


def _all_on_one(snapshot: Snapshot, requests: Sequence[Request], _: PolicySettings) -> ApplicationPlacement:
    node = next((each for each in snapshot.nodes.names if each not in requests[0].exclude), None)
    return ApplicationPlacement(nodes=() if node is None else (node,) * len(requests))


PACKED = PolicyChoice(Policy(name="packed", summary="", place_all=_all_on_one), PolicySettings())


def test_containers_that_would_overload_a_node_together_go_elsewhere() -> None:
    small, large = (
        NodeFacts(name=name, capacity=amount(cores, 16), used=amount(0, 1), curve=CURVE)
        for name, cores in (("a", 4.0), ("b", 16.0))
    )
    need = Request(demand=amount(3, 1), mean=amount(3, 1), known=True, service="web")
    snapshot, admission = assemble([small, large]), AdmissionRule(0.05, ShortageRecord())
    assert place_together(snapshot, [need] * 2, PACKED).nodes == ("a", "a")
    assert place_together(snapshot, [need] * 2, PACKED, admission=admission).nodes == ("b", "b")
    assert place_together(snapshot, [need], PACKED, admission=admission).nodes == ("a",), "alone, it may"
    assert place_together(snapshot, [need] * 8, PACKED, admission=admission).nodes == ()
