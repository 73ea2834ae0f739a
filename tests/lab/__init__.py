"""The lab: real parts that tests and benchmarks run on, created on demand and removed afterwards.

Each part is an independent context manager: `engines.docker.docker_engine`, `engines.swarm.swarm`,
`hosts.link.linked_hosts`, a store, a booted machine. `parts.PARTS` lists the requirements of each part; if
they are not met, `parts.require` skips the test, and `left_out` lists skipped parts after the run.
`install` installs the packages. Everything that a part creates is registered with a `reaper.Reaper` first,
whose `guardian` process removes it even if the test run is killed. `tests` has the tests of the lab itself.
"""
