"""Counters and limits of containers, from cgroup files.

`layout` finds where cgroups are mounted and in which version. `containers` walks one hierarchy and recognizes
the containers of each runtime by path. `usage` reads each source from the hierarchy that has it, and limits
including those of parent cgroups; `v1` and `v2` parse the files.
"""
