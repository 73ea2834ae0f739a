"""The table of elasticity policies."""

from collections.abc import Mapping

from collector.features.elastic.scaling.interface import ElasticPolicy
from collector.features.elastic.scaling.model_based import MODEL_BASED
from collector.features.elastic.scaling.q_learning import Q_LEARNING
from collector.features.elastic.scaling.queueing import QUEUEING
from collector.features.elastic.scaling.threshold import THRESHOLD

ELASTIC_POLICIES: Mapping[str, ElasticPolicy] = {
    policy.name: policy for policy in (QUEUEING, MODEL_BASED, Q_LEARNING, THRESHOLD)
}
