"""Everything that is read: kernel files, and what the runtime says of its containers.

`read` makes one pass over `host` (or `subtree`, a cgroup taken as the host) and `cgroups`, with
`netns` for containers' networks; `readings` are what comes of it: raw counters as of one instant.
`docker` listens to the engine for names and events. In come roots and a socket; nothing is computed
here from two readings.
"""
