"""Containers as the kernel accounts for them.

`layout` finds where cgroups are mounted and in which version; `find` walks one hierarchy and `paths`
tells by its name which directory is a container of which runtime. `v1` and `v2` are tables of sources: which
files belong together (`source` is their shape), and what is made of their text. `usage` takes each source
from the hierarchy that has it and keeps its files open; `limits` adds what a container inherits from above.
In come the roots of proc and sys; out go ids, counters and limits. No runtime is asked here, and nothing is
computed from two readings.
"""
