"""Every metric of the agent: its name, its meaning, and where its value is found.

`node` and `container` read a `Picture`, `own` reads the agent's state. `metrics` exposes these tables, and
the page of metrics is made from them: a new metric is one entry in one of them.
"""

from agent.exposition.catalogue.agent import AGENT_METRICS, ALERT_METRICS, GAP_METRICS
from agent.exposition.catalogue.container import CONTAINER_METRICS, CONTAINER_PRESSURE_METRICS
from agent.exposition.catalogue.node import METER_METRICS, NODE_METRICS, NODE_PRESSURE_METRICS

__all__ = [
    "AGENT_METRICS",
    "ALERT_METRICS",
    "CONTAINER_METRICS",
    "CONTAINER_PRESSURE_METRICS",
    "GAP_METRICS",
    "METER_METRICS",
    "NODE_METRICS",
    "NODE_PRESSURE_METRICS",
]
