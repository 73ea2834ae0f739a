"""The request that creates a copy of a container on another host. Pure."""

from collector.drivers.docker.client import Json
from collector.drivers.docker.models import DockerContainer

_SHORT_ID = 12
_OF_THIS_HOST = ("ContainerIDFile", "VolumesFrom", "Links")
_NO_ADDRESS = ("bridge", "host", "none", "default")


def recipe(container: DockerContainer, limits: Json | None = None) -> Json:
    """Return the body of `POST /containers/create`; `limits` are those from before a cut."""
    config = dict(container.config)
    if config.get("Hostname") == container.id[:_SHORT_ID]:
        config.pop("Hostname")  # derived from the id
    host = {key: value for key, value in container.host_config.items() if key not in _OF_THIS_HOST}
    body: Json = {**config, "HostConfig": {**host, **(limits or {})}}
    networks: Json = container.network_settings.get("Networks") or {}
    named = {
        name: {"Aliases": _own(settings.get("Aliases") or [], container.id)}
        for name, settings in networks.items()
        if name not in _NO_ADDRESS
    }
    if named:
        body["NetworkingConfig"] = {"EndpointsConfig": named}
    return body


def _own(aliases: list[str], container_id: str) -> list[str]:
    return [alias for alias in aliases if alias != container_id[:_SHORT_ID]]
