"""Names, images, labels and lives of containers, from the Docker engine (or Podman's socket).

Counters never come from here: the engine is asked once for the list and then only listened to. `words`
reads what it says, `roster` keeps what follows from that, and `client` speaks with it over aiohttp, which
the agent has anyway: an SDK would cost a third of its memory for two GETs. In comes a socket; out go a
`ContainerInfo` per container and a `RuntimeEvent` for each start, death and kill for want of memory.
"""

from agent.sources.docker.client import DockerNames
from agent.sources.docker.info import ContainerInfo, RuntimeEvent

__all__ = ["ContainerInfo", "DockerNames", "RuntimeEvent"]
