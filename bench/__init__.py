"""Benchmarks: measurements with bounds, on real parts, next to peers where there are any.

One module or folder per benchmark, and what they share in `common/`. `python -m bench` (`./dev bench`)
lists the benchmarks, runs one or all, and compares one with another checkout. Progress and a table of the
figures go to stderr; the result goes to stdout as one JSON object, on a terminal only with `--json`. A new
benchmark is a module with `add_arguments` and `run`, and one line in `catalogue.py`.
"""
