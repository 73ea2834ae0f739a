"""What Prometheus sees.

`catalogue` is the table of all metrics, from which the docs are made as well; `metrics` fills it
from the agent's state at each scrape.
"""
