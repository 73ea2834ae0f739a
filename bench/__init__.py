"""Benchmarks: measurements with bounds, on real parts, next to peers where there are any.

One module or folder per benchmark, and what they share in `common/`. `python -m bench` (`./dev bench`)
lists the benchmarks, and runs one or all. A benchmark prints its progress on stderr, and at the end one JSON
object on stdout: every figure, its bound, and whether all bounds are kept. A new benchmark is a module with
`add_arguments` and `run`, and one line in `catalogue.py`.
"""
