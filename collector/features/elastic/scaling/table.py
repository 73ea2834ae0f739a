"""The table of elasticity policies that a cluster can run. `wattpack replay` has others, to compare with."""

from collections.abc import Mapping

from collector.features.elastic.scaling import model_based, queueing, threshold
from collector.features.elastic.scaling.interface import ElasticPolicy

ELASTIC_POLICIES: Mapping[str, ElasticPolicy] = {
    "queueing": queueing.decide,
    "model-based": model_based.decide,
    "threshold": threshold.decide,
}
