"""Plain hosts, each with a Docker engine of its own: limits cut live, containers made anew elsewhere.

In: orders for single containers. Out: changed limits, and containers that are made, stopped and removed.
`words` reads what an engine says; `limits` is the arithmetic of what may be promised, and `recipe` that of
making the same container elsewhere, both pure; `cutting` and `moving` do it.

A container moved this way keeps its image, command, environment, labels, limits, ports and networks by name.
It cannot keep its address, what it wrote into its own file system, nor its volumes: one that has any stays.
"""

from collector.drivers.docker.driver import open_docker

__all__ = ["open_docker"]
