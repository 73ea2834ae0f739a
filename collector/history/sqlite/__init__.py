"""A history in one SQLite file.

`history` implements the interface, on threads of its own (`connection`) so that the disk never blocks the
event loop. `schema` has the tables, `rows` the conversion of reports; `writer` and `reader` are plain
synchronous SQL.

Samples last for hours, rollups for months. `rollup_store` reads the reports of a node that are not rolled up
yet, and `rollups` turns them into sums per five minutes and per hour, by the rule in `timeline`. `means`,
`series` and `energy` answer queries; `retention` deletes old rows.
"""
