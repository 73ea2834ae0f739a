"""Recorded traces: one module per format, and the history of a collector.

In: a file or a folder, plain or gzip. Out: a `Workload`, or an error that names the line. Only `lifecycles`
reads what happened to containers, for the ledger of promises.
"""
