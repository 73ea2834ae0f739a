"""Traces that others recorded, each format in one module, all as one `Workload`.

In: a file, plain or packed with gzip. Out: a workload, or a complaint that names the line.
"""
