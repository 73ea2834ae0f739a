"""The policies that a replay offers: those of the collector, and those to compare with."""

from collections.abc import Mapping

from collector.decide.policies import table as live
from collector.decide.policies.interface import Policy
from collector.features.elastic.scaling import table as live_elastic
from collector.features.elastic.scaling.interface import ElasticPolicy
from replay.contenders import baselines, peers, q_learning
from replay.contenders.consolidate.policy import CONSOLIDATE
from replay.contenders.net_optimal.policy import NET_OPTIMAL
from replay.contenders.priority import PRIORITY

CONTENDERS: tuple[Policy, ...] = (
    baselines.RANDOM,
    baselines.ROUND_ROBIN,
    baselines.FIRST_FIT,
    baselines.SPREAD,
    baselines.BINPACK,
    peers.LEAST_ALLOCATED,
    peers.MOST_ALLOCATED,
    peers.BALANCED_ALLOCATION,
    peers.NOMAD,
    peers.TARGET_LOAD,
    peers.LOAD_VARIATION,
    CONSOLIDATE,
    NET_OPTIMAL,
    PRIORITY,
)

POLICIES: Mapping[str, Policy] = {**live.POLICIES, **{each.name: each for each in CONTENDERS}}
ELASTIC_POLICIES: Mapping[str, ElasticPolicy] = {
    **live_elastic.ELASTIC_POLICIES,
    "q-learning": q_learning.decide,
}
