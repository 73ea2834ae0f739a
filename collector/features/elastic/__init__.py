"""Elastic services: their replicas and CPU limits follow their load.

In: targets from settings and labels, the orchestrator's state, response times or a query. Out: decisions of a
policy in `scaling`, carried out like all others; the state of the policy is stored in the history.
"""
