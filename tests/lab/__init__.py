"""The lab: real parts that tests and benchmarks run on, created on demand and removed afterwards.

Each part is an independent context manager: `docker.docker_engine`, `swarm.swarm`, `link.linked_hosts`, a
store, a booted machine. `parts.PARTS` lists the requirements of each part; if they are not met,
`parts.require` skips the test, and `left_out` ends the run with a list of skipped parts and reasons.
`install` installs the packages. Everything that a part creates is registered with a `reaper.Reaper` first,
whose `guardian` process removes it even if the test run is killed.
"""
