"""One per cluster: take in, remember, answer.

`main` puts it together. A request passes the `door`; reports go to `ingest`, which parses them once, has
`history` keep them and `registry` know them (who is there now), and only then acknowledges. Reports are
sparse and may come in any order: under the registry, `picture` puts together what one run of an agent said,
`usage` adds up its histograms, and `alerts` knows which of its bottlenecks are open. The registry writes what
changes on the `board`, in columns, of which snapshots are taken for decisions; `listing` words what it knows.
`api` is the one table of everything that can be asked, answered from registry and history in the words of
`answers`; `what_if` asks the nodes' own power models what more load would draw. `openapi` and `reference`
describe that table to programs and people, `page` shows it, and `metrics` tells Prometheus how the collector
itself is doing.
Nothing here reads a host.
"""
