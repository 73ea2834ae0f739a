"""One per cluster: take in, remember, answer.

Reports come in at `ingest`, which parses them once and hands them to `registry` (who is there now)
and `history` (what was, in SQLite). `api` answers people and orchestrators from these two; `metrics`
tells Prometheus how the collector itself is doing. Nothing here reads a host.
"""
