"""The HTTP API: one module per topic with its response types; `table` joins them.

`collector.serve.web` passes requests on; each module lists its routes in `ROUTES`.
"""
