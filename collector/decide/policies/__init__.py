"""Policies: where to place a container and what to move, as pure functions of a snapshot.

In: a `Snapshot`, and for a placement a `Request`. Out: a ranking of nodes or a plan, with reasons. The same
functions decide live and in replay. A policy is one file, or a folder, and one line in `table`; those that
are only there to compare with are in `replay.contenders`.

Shared: `interface`, `actions`, `resolve` (a policy by name, with its settings), `filters` (which nodes are
eligible), `scoring` (ratios), `stability` (limits of moves), `worth` (whether a change is worth its cost),
`overbooking` (reservations by class).
"""
