"""One per cluster: take in, remember, answer.

`main` puts it together. A request passes the `door`; reports go to `ingest`, which parses them once, has
`history` keep them and `registry` know them (who is there now), and only then acknowledges. `api` is the
one table of everything that can be asked, answered from these two in the words of `answers`; `openapi`
and `reference` describe that table to programs and people, `page` shows it, and `metrics` tells
Prometheus how the collector itself is doing. Nothing here reads a host.
"""
