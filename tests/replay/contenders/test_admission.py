from collector.decide.policies.admission.record import ShortageRecord
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.policies.interface import Rejection
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.ranking import rank
from replay.contenders.baselines import SPREAD
from tests.collector.decide.policies.admission.test_rule import ONE, small_cluster

_SPREAD = PolicyChoice(SPREAD, SPREAD.settings())


def test_ranked_nodes_beyond_the_limit_are_refused_with_the_figures() -> None:
    snapshot, rule = small_cluster(), AdmissionRule(0.05, ShortageRecord())
    before = rank(snapshot, ONE, _SPREAD)
    after = rank(snapshot, ONE, _SPREAD, admission=rule)
    full, calm, empty = (snapshot.nodes.index[name] for name in ("full", "calm", "empty"))
    assert full in before.rows
    assert sorted(after.rows) == sorted((calm, empty))
    assert after.refused[full] == Rejection.RISK
    assert after.verdict is not None
    assert after.verdict(calm).probability < 0.05 < after.verdict(full).probability
    assert after.verdict(full).reason.endswith("% of the time with it, above the limit of 5.00%")
    assert after.verdict(calm).reason.endswith("limit 5.00%")
