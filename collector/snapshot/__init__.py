"""The whole cluster at one moment, in columns: what every decision is made from.

In: the registry (live) or a simulation (replay), by `assemble` or straight from arrays. Out: a `Snapshot`
that nobody changes any more, so that a policy may read it in any thread while reports keep coming in.
Rows are nodes and tasks (containers) in the order of their names and ids, so that nothing depends on the
order in which things were heard of. Columns of resources have four places, in the order of `RESOURCES`.
"""
