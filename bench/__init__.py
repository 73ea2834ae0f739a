"""Measurements with a bound, on real parts, side by side with peers where there are any.

What lives here: one file per benchmark, and the frame they hang in. `python -m bench` (`./dev bench`)
lists them, and runs one or all. What comes in are the options of a benchmark; what goes out is progress
on stderr and, last on stdout, one JSON object with every figure, its bound, and whether all were kept.
A new benchmark is one file, with `add_arguments` and `run`, and one line in the table in `__main__`.
"""
