"""The cluster now, in columns that are written as things are heard of.

In: what a report changed (from the registry), what was learnt of containers and services (from the
analysis), and what an orchestrator promised (from its driver). Each costs what it changes, however large the
cluster is. Out: a `Snapshot`, made at most once per `snapshot_seconds`, which the writers leave alone; and
hosts and tasks in the order of Energy4Cloud's registries.

`facts` are the values that cross its border. `table` grows columns and keeps their rows in order, `nodes`
and `tasks` hold one table each, `trend` the nodes' last hours; `traits` reads what labels and settings say;
`lists` keeps the registries' order, on `ordered`; `picturing` makes snapshots; `board` joins them under one
lock.
"""
