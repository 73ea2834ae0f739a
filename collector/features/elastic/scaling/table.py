"""The table of elasticity policies that a cluster can run. `wattpack replay` has others, to compare with."""

from collections.abc import Mapping

from collector.features.elastic.scaling.interface import ElasticPolicy
from collector.features.elastic.scaling.model_based import MODEL_BASED
from collector.features.elastic.scaling.queueing import QUEUEING
from collector.features.elastic.scaling.threshold import THRESHOLD

ELASTIC_POLICIES: Mapping[str, ElasticPolicy] = {
    policy.name: policy for policy in (QUEUEING, MODEL_BASED, THRESHOLD)
}
