"""All metrics of the agent: name, help text, and where the value comes from.

`node` and `container` read a `NodeSample`, `agent` reads the agent's state. A new metric is one entry in one
of these tables; `/metrics` and docs/metrics.md are generated from them.
"""

from agent.exposition.catalogue.agent import AGENT_METRICS, ALERT_METRICS, GAP_METRICS
from agent.exposition.catalogue.container import CONTAINER_METRICS, CONTAINER_PRESSURE_METRICS
from agent.exposition.catalogue.node import DEVICE_METRICS, METER_METRICS, NODE_METRICS, NODE_PRESSURE_METRICS

__all__ = [
    "AGENT_METRICS",
    "ALERT_METRICS",
    "CONTAINER_METRICS",
    "CONTAINER_PRESSURE_METRICS",
    "DEVICE_METRICS",
    "GAP_METRICS",
    "METER_METRICS",
    "NODE_METRICS",
    "NODE_PRESSURE_METRICS",
]
