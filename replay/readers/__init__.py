"""Published traces: one module per format, each returns a `Workload`.

In: a file, plain or gzip. Out: a workload, or an error that names the line.
"""
