"""Hands: how a plan is carried out on a real orchestrator, and what that one knows.

In: single actions of a plan. Out: what became of each; and the orchestrator's own view of nodes, services and
promises, so that policies see what was reserved and what may be moved, not only what is used. One file per
driver, one line in `collector.drivers.table`.
"""
