"""The order to make a container elsewhere that is like one that runs here. Pure."""

from collector.drivers.docker.client import Json
from collector.drivers.docker.models import DockerContainer

_SHORT_ID = 12
_OF_THIS_HOST = ("ContainerIDFile", "VolumesFrom", "Links")
_NO_ADDRESS = ("bridge", "host", "none", "default")


def recipe(container: DockerContainer, limits: Json | None = None) -> Json:
    """What `POST /containers/create` takes; `limits` are those it asked for at first, if it was cut since."""
    config = dict(container.config)
    if config.get("Hostname") == container.id[:_SHORT_ID]:
        config.pop("Hostname")  # not chosen, but made from the id, as the new one will be
    host = {key: value for key, value in container.host_config.items() if key not in _OF_THIS_HOST}
    made: Json = {**config, "HostConfig": {**host, **(limits or {})}}
    networks: Json = container.network_settings.get("Networks") or {}
    named = {
        name: {"Aliases": _own(settings.get("Aliases") or [], container.id)}
        for name, settings in networks.items()
        if name not in _NO_ADDRESS
    }
    if named:
        made["NetworkingConfig"] = {"EndpointsConfig": named}
    return made


def _own(aliases: list[str], container_id: str) -> list[str]:
    return [alias for alias in aliases if alias != container_id[:_SHORT_ID]]
