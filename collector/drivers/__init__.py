"""Drivers: carry out single actions of a plan on an orchestrator.

In: actions. Out: their results, and the orchestrator's own state of nodes, services and reservations. A
driver is a folder with the same file names in each, and one line in `table`; nothing else imports it:
`driver` (the interface), `client` (requests), `models` (responses, pure), `views` (the common state, pure),
and the actions that take several steps: `moves`, `scaling`, `power`. Drivers share `polling` (wait for a
change, undo it otherwise), `power` (switch nodes), and `engine/` (Docker engines).
"""
