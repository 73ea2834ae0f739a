"""Names, images, labels and events of containers, from the Docker engine or Podman's socket.

Counters never come from here: the engine lists its containers once, and then sends events. `models` parses
both, `client` keeps the containers and the connection. It uses aiohttp, which the agent has anyway: an SDK
would take a third of the agent's memory for three GET requests. Input: a socket. Output: a `ContainerInfo`
per container, and a `RuntimeEvent` per start, exit and out-of-memory kill.
"""

from agent.sources.docker.client import DockerWatcher
from agent.sources.docker.models import ContainerInfo, RuntimeEvent

__all__ = ["ContainerInfo", "DockerWatcher", "RuntimeEvent"]
