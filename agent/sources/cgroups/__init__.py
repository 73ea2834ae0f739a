"""Counters and limits of containers, from cgroup files.

`layout` finds where cgroups are mounted and in which version. `containers` walks one hierarchy and recognizes
the containers of each runtime by path. `v1` and `v2` are tables of sources (`source`): files, and the
function that parses them. `usage` reads each source from the hierarchy that has it; `limits` includes those
of parent cgroups.
"""
