"""The lab: real parts that tests and benchmarks run on, made on the spot and gone afterwards.

Each part is a context manager that stands on its own and beside others: `docker.docker_engine`,
`swarm.swarm`, a store, a booted machine. What a part needs stands in `parts.PARTS`; where it cannot be had,
`parts.require` leaves the test out, and `left_out` ends the run with what that was and why. `install` brings
the packages. Whatever a part makes is told first to a `reaper.Reaper`, whose `guardian` process undoes it
even when the test run is killed.
"""
