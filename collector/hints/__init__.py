"""Asking where something should go, and what should move: the policies, as others can ask them.

In: questions of people and orchestrators. Out: ranked nodes and plans, each line with its reasons.
`sight` has the newest snapshot there is; `ledger` counts on it what was decided lately and is not seen yet,
so that a hundred questions at once are not all sent to the node that looks idle. `questions` makes out what a
request needs, and says where that is known from; `placing` ranks, `planning` makes plans, and `routes` serves
them.
"""
