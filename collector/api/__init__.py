"""The HTTP API: one module per topic with its answer types, joined in `table`.

`collector.web` passes requests on; each module lists its routes in `ROUTES`.
"""
