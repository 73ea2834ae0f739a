"""Docker engines, for the drivers `docker` and `swarm`: `client` sends requests about `containers`."""
