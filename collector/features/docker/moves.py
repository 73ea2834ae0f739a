"""Moves: create a container on another host, wait until it is healthy, then remove the old one."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from collector.config import DriverConfig
from collector.drivers.engine.client import Engine, EngineError, Json
from collector.drivers.engine.limits import current_limits
from collector.drivers.engine.models import DockerContainer
from collector.drivers.interface import DriverError
from collector.drivers.polling import NotYet, wait_for
from collector.features.docker.allow_list import portable_config, portable_host_config
from collector.features.docker.views import service_view

_SHORT_ID = 12
_NO_ADDRESS = ("bridge", "host", "none", "default")


class _Created(msgspec.Struct, rename="pascal", frozen=True):
    id: str


class _Image(msgspec.Struct, rename="pascal", frozen=True):
    repo_digests: list[str] | None = None


class _Network(msgspec.Struct, rename="pascal", frozen=True):
    name: str
    driver: str = ""


@dataclass(frozen=True, slots=True)
class DestinationEngine:
    """The host that a container moves to."""

    engine: Engine
    grants: Collection[str]
    """Grants of its settings to moved containers, in addition to the allow-list."""


async def move(
    source: Engine, to: DestinationEngine, container: str, settings: DriverConfig, limits: Json | None
) -> tuple[str, str]:
    """Move a container to another engine; return the id of the new one, and a remark."""
    target = to.engine
    old = await source.get(f"/containers/{container}/json", DockerContainer)
    if (stays := service_view(old, to.grants).stays) is not None:
        raise DriverError(f"{old.plain_name} cannot move: {stays}")
    body = create_request(old, limits, to.grants)
    await _require_same_image(source, target, old)
    await _require_networks(target, body)
    response = await target.post("/containers/create", body, name=old.plain_name)
    created = msgspec.json.decode(response, type=_Created).id
    try:
        await target.post(f"/containers/{created}/start")
        await wait_until_healthy(target, created, settings)
    except BaseException:
        # Also when the collector is being stopped: the container must not run twice.
        await asyncio.shield(target.delete(f"/containers/{created}", force="true", v="true"))
        raise
    try:
        await stop(source, old)
        await source.delete(f"/containers/{container}", v="true")
    except DriverError as error:  # two running containers are better than none
        return created, f", but the old one could not be removed: {error}"
    return created, ""


async def stop(engine: Engine, container: DockerContainer) -> None:
    """Stop a container, and wait until it has stopped."""
    await engine.post(f"/containers/{container.id}/stop", takes_seconds=container.stop_seconds)


async def wait_until_healthy(engine: Engine, container: str, settings: DriverConfig) -> None:
    """Wait until a container is healthy, and is still healthy after `stable_seconds`."""

    async def is_healthy() -> None:
        now = await engine.get(f"/containers/{container}/json", DockerContainer)
        if now.restart_count or now.state.is_healthy is False:
            raise DriverError("the new container stopped or is unhealthy")
        if not now.state.is_healthy:
            raise NotYet("the new container was not healthy")

    await wait_for(is_healthy, settings.healthy_seconds)
    await asyncio.sleep(settings.stable_seconds)
    await wait_for(is_healthy, settings.healthy_seconds)


async def _require_same_image(source: Engine, target: Engine, container: DockerContainer) -> None:
    """Raise `DriverError` if the target lacks the image, or has another one of that name."""
    name = str(container.config.get("Image", ""))
    path = f"/images/{quote(name, safe='')}/json"
    try:
        there = await target.get(path, _Image)
    except EngineError as error:
        raise DriverError(f"the image {name} is not on the other host: pull it there first") from error
    here = await source.get(f"/images/{quote(container.image, safe='')}/json", _Image)
    # An image that was never pulled has no digest.
    if here.repo_digests and there.repo_digests and not {*here.repo_digests} & {*there.repo_digests}:
        raise DriverError(f"the image {name} differs on the other host: pull the same one there first")


async def _require_networks(target: Engine, body: Json) -> None:
    """Raise `DriverError` unless the target has a network of exactly this name for each.

    An engine also finds a network by the first digits of its id: a name must not select the host's network.
    """
    for name in network_names(body):
        try:
            found = await target.get(f"/networks/{quote(name, safe='')}", _Network)
        except EngineError as error:
            raise DriverError(
                f"the network {name} is not on the other host: create it there first"
            ) from error
        if found.name != name or found.driver == "host":
            raise DriverError(f"the other host has no network called {name}: create it there first")


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
