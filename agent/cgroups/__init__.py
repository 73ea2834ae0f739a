"""Containers as the kernel accounts for them.

`layout` finds where cgroups are mounted and in which version; `find` walks one hierarchy and `paths`
tells by its name which directory is a container of which runtime; `v1` and `v2` read a container's
files; `usage` chooses between them for each counter and adds the limits that a container inherits.
In come the roots of proc and sys; out go ids, counters and limits. No runtime is asked here, and
nothing is computed from two readings.
"""
