"""Where to put it, what to move, and why: every way to decide, as pure functions of a snapshot.

In: a `Snapshot`, and for a placement a `Request`. Out: ranked nodes, or a plan, each with its reasons. The
same functions decide live and in replay. One file per policy, one line in `collector.policies.table`.

What they share: `interface` (what is asked and answered), `filters` (who is out of the question), `scoring`
(shares of what there is, and sentences about them), `stability` (what keeps plans calm) and `outcome` (the
watts that a plan comes to).
"""
