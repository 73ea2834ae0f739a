"""A history whose series are also written to a Prometheus-compatible store.

Reports go to the store as series with the names and labels that a scrape of the agents gives, by remote
write. They can be read back as reports, by PromQL.

A store holds numbers only. Keys, events, alerts and other values stay in the SQLite file, which also keeps
the last hours, so that a restart is exact. `history` joins the two. To write, `schema` maps fields to series,
`writer` turns reports into samples, `encoding` encodes them, and the outbox of `history` keeps them on disk
until the store has them. To read, `reader` turns answers of the store into reports; `jobs` reads agents that
a Prometheus scrapes.
"""
