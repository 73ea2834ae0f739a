"""The HTTP API: one module per topic with its answer types, joined in `table`.

Requests come in from `collector.web`; each module's `ROUTES` are its rows of the table.
"""
