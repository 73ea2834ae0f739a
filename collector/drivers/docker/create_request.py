"""The request that creates a copy of a container on another host. Pure."""

from collections.abc import Collection

from collector.drivers.docker.allow_list import portable_config, portable_host_config
from collector.drivers.engine.client import Json
from collector.drivers.engine.limits import current_limits
from collector.drivers.engine.models import DockerContainer

_SHORT_ID = 12
_NO_ADDRESS = ("bridge", "host", "none", "default")


def create_request(
    container: DockerContainer, limits: Json | None = None, grants: Collection[str] = ()
) -> Json:
    """Return the body of `POST /containers/create` on a host with these grants.

    `limits` are those from before a cut.
    """
    config = portable_config(container.config)
    if config.get("Hostname") == container.id[:_SHORT_ID]:
        config.pop("Hostname")  # derived from the id
    before_cut = {} if limits is None else current_limits(limits)
    body: Json = {
        **config,
        "HostConfig": portable_host_config({**container.host_config, **before_cut}, grants),
    }
    named = {
        name: {"Aliases": _aliases(settings.get("Aliases") or [], container.id)}
        for name, settings in _networks(container).items()
        if name not in _NO_ADDRESS
    }
    if named:
        body["NetworkingConfig"] = {"EndpointsConfig": named}
    return body


def network_names(body: Json) -> set[str]:
    """Return the networks that the request names."""
    mode = body["HostConfig"].get("NetworkMode", "default")
    named = body.get("NetworkingConfig", {}).get("EndpointsConfig", {})
    return {mode, *named} - {*_NO_ADDRESS}


def _networks(container: DockerContainer) -> Json:
    return container.network_settings.get("Networks") or {}


def _aliases(aliases: list[str], container_id: str) -> list[str]:
    return [alias for alias in aliases if alias != container_id[:_SHORT_ID]]
