"""The table of elasticity policies that a cluster can run. `wattpack replay` has others, to compare with."""

from collections.abc import Mapping

from collector.elastic.interface import ElasticPolicy
from collector.elastic.model_based import MODEL_BASED
from collector.elastic.queueing import QUEUEING
from collector.elastic.threshold import THRESHOLD

ELASTIC_POLICIES: Mapping[str, ElasticPolicy] = {
    policy.name: policy for policy in (QUEUEING, MODEL_BASED, THRESHOLD)
}
