"""The policies that a replay offers: those of the collector, and those to compare with."""

from collections.abc import Mapping

from collector.decide.policies import table as live
from collector.decide.policies.interface import Policy
from collector.features.elastic.scaling import table as live_elastic
from collector.features.elastic.scaling.interface import ElasticPolicy
from replay.contenders import q_learning
from replay.contenders.baselines import BINPACK, FIRST_FIT, RANDOM, ROUND_ROBIN, SPREAD
from replay.contenders.consolidate.policy import CONSOLIDATE
from replay.contenders.net_optimal.policy import NET_OPTIMAL
from replay.contenders.peers import (
    BALANCED_ALLOCATION,
    LEAST_ALLOCATED,
    LOAD_VARIATION,
    MOST_ALLOCATED,
    NOMAD,
    TARGET_LOAD,
)
from replay.contenders.priority import PRIORITY

CONTENDERS: tuple[Policy, ...] = (
    RANDOM,
    ROUND_ROBIN,
    FIRST_FIT,
    SPREAD,
    BINPACK,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    BALANCED_ALLOCATION,
    NOMAD,
    TARGET_LOAD,
    LOAD_VARIATION,
    CONSOLIDATE,
    NET_OPTIMAL,
    PRIORITY,
)

POLICIES: Mapping[str, Policy] = {**live.POLICIES, **{each.name: each for each in CONTENDERS}}
ELASTIC_POLICIES: Mapping[str, ElasticPolicy] = {
    **live_elastic.ELASTIC_POLICIES,
    "q-learning": q_learning.decide,
}
