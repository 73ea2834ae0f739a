"""What Prometheus scrapes from the agent.

`catalogue` is the table of all metrics, which docs/metrics.md is generated from; `metrics` collects their
values from the agent's state at each scrape.
"""
