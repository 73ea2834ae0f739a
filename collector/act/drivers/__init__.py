"""Drivers: carry out single actions of a plan on an orchestrator.

In: actions. Out: their results, and the orchestrator's own state of nodes, services and reservations. A
driver is a feature; nothing else imports it. Drivers share `interface` (also: a method for each kind of
action; wait for a change, undo it otherwise), `power` (switch nodes), and `engine/` (Docker engines).
"""
