"""The whole cluster at one moment, in columns: the input of every decision.

`collector.observe` builds a `Snapshot` from reports, live and in replay. A snapshot never changes, so a
policy may read it in any thread while reports keep coming in. Rows are nodes, tasks (containers) and
services, sorted by name or id. Columns of resources have four places, in the order of `RESOURCES`.
"""
