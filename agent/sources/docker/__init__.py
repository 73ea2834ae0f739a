"""Names, images, labels and events of containers, from the Docker engine or Podman's socket.

Counters never come from here: the engine is asked once for its list and then sends events. `models` parses
both, `index` keeps the containers, `client` holds the connection. It uses aiohttp, which the agent has
anyway: an SDK would take a third of the agent's memory for three GET requests. A socket comes in; a
`ContainerInfo` per container and a `RuntimeEvent` per start, exit and out-of-memory kill go out.
"""

from agent.sources.docker.client import DockerWatcher
from agent.sources.docker.models import ContainerInfo, RuntimeEvent

__all__ = ["ContainerInfo", "DockerWatcher", "RuntimeEvent"]
