"""A history whose time series live in a store that operators already run: Prometheus and its kin.

In: the reports that a collector takes. Out: series with the names and labels that a scrape of the agents
gives, by remote write; and the same read back as reports, by PromQL.

A time-series store holds numbers, so what is none (keys, events, alerts, what was understood) stays in the
SQLite file, which also keeps the last hours and so makes a restart exact. `history` joins the two. On the way
out, `levels` is the table of which field is which series, `writing` says what a report adds to the store,
`encoding` writes that as remote write asks for, `outbox` keeps it on disk until the store has it, and
`shipping` takes it there. On the way back, `reading` makes reports of what the store answers, and `past`
tells what was before the file began. `client` speaks HTTP for all.
"""
