"""Containers of Docker hosts: as services and tasks; and moves.

A move creates a copy on another host, waits until it is healthy, and removes the container. Both engines
together show how far a move has come: the copy has the key of the move in a label.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from collector.act.drivers.engine.client import Engine, Json, filtered
from collector.act.drivers.engine.containers import DockerContainer, ListedContainer, find, limit_of
from collector.act.drivers.interface import DriverError, HalfDoneError, NotYet, RefusedError, wait_for
from collector.common.labels import ALLOWED, COPY_LABEL, MOVE_LABEL, NEVER, NO_MOVE_LABEL
from collector.common.orchestrator import Mode, ServiceView
from collector.config import DriverConfig
from collector.decide.policies.actions import short_id
from collector.features.docker.allow_list import portable_config, portable_host_config, refusals

_NO_ADDRESS = ("bridge", "host", "none", "default")


class _Created(msgspec.Struct, rename="pascal", frozen=True):
    id: str


class _Image(msgspec.Struct, rename="pascal", frozen=True):
    repo_digests: list[str] | None = None


class _Network(msgspec.Struct, rename="pascal", frozen=True):
    name: str
    driver: str = ""


def named(hosts: Mapping[str, list[DockerContainer] | None]) -> Iterator[tuple[str, str, DockerContainer]]:
    """Return each container of some hosts with a unique name and its host.

    That is its own name, or `NAME@HOST` if several hosts have one: labels of one must not apply to the other.
    """
    count = Counter(name for there in hosts.values() for name in {each.plain_name for each in there or ()})
    for host, there in hosts.items():
        for each in there or ():
            name = each.plain_name
            yield f"{name}@{host}" if count[name] > 1 or "@" in name else name, host, each


def service_view(container: DockerContainer, name: str = "") -> ServiceView:
    """Return a single container as a service."""
    return ServiceView(
        name=name or container.plain_name,
        mode=Mode.STANDALONE,
        limit=limit_of(container.host_config),
        image=str(container.config.get("Image", "")),
        labels=container.labels,
        stays=next(_reasons_to_stay(container), None),
    )


def _reasons_to_stay(container: DockerContainer) -> Iterator[str]:
    """Return why a container must not move, the strongest reason first."""
    label = container.labels.get(MOVE_LABEL)
    if label == NEVER:
        yield f"its label {MOVE_LABEL} is {NEVER}"
    if container.is_swarm_task:
        yield "a Swarm manages it"
    for mount in container.mounts:
        if mount.get("Type") != "tmpfs":
            yield f"it has data on this host, in {mount.get('Name') or mount.get('Source')}"
    if str(container.host_config.get("NetworkMode", "")).startswith("container:"):
        yield "it shares the network of another container"
    yield from refusals(container.host_config)
    if container.host_config.get("AutoRemove"):
        yield "it is removed when it stops, so that the move could not be undone"
    if label != ALLOWED:
        yield f"it has one replica {NO_MOVE_LABEL}"


@dataclass(frozen=True, slots=True)
class Transfer:
    """A container that moves between two engines."""

    source: Engine
    target: Engine
    container: str
    key: str
    """A random label of the copy: nobody else can make a container that looks like it."""


async def move(transfer: Transfer, settings: DriverConfig, limits: Json) -> str:
    """Move a container to another engine; return the id of the copy.

    It goes on where an interrupted move stopped.
    """
    source, target = transfer.source, transfer.target
    old, copy = await _find_pair(transfer)
    if old is None:
        if copy is None:
            raise DriverError("it no longer exists")
        return copy.id
    created = await _create(transfer, old, limits) if copy is None else copy.id
    try:
        await target.post(f"/containers/{created}/start")
        await wait_until_healthy(target, created, settings)
    except BaseException as failure:
        # Also when the collector is being stopped: the container must not run twice.
        try:
            await asyncio.shield(remove(target, created))
        except DriverError as worse:
            raise HalfDoneError(f"{failure}; its copy could not be removed: {worse}") from failure
        raise
    try:
        await _end(source, old)
    except DriverError as error:  # two running containers are better than none
        raise HalfDoneError(f"its copy runs, but it could not be removed: {error}") from error
    return created


async def recover_move(transfer: Transfer, settings: DriverConfig, *, ran: bool) -> str | None:
    """Complete an interrupted move if the copy is healthy, else undo it; return the id of the copy, or None.

    `ran` is whether the container ran before the move. The stages are those of `move`: no copy, a copy that
    was not started, both, a copy and the stopped container, the copy alone.
    """
    old, copy = await _find_pair(transfer)
    if old is None:
        return None if copy is None else copy.id
    if copy is not None and copy.state.status == "running":
        try:
            await wait_until_healthy(transfer.target, copy.id, settings)
        except DriverError:
            pass
        else:
            await _end(transfer.source, old)
            return copy.id
    await _put_back(transfer, old, copy, ran=ran)
    return None


async def _put_back(
    transfer: Transfer, old: DockerContainer, copy: DockerContainer | None, *, ran: bool
) -> None:
    """Start the container again, then remove its copy."""
    if ran and old.state.status != "running":
        await transfer.source.post(f"/containers/{old.id}/start")
    if copy is not None:
        await remove(transfer.target, copy.id)


async def move_back(transfer: Transfer) -> bool:
    """Undo a move; return False if it has removed the container: then its copy must move."""
    old, copy = await _find_pair(transfer)
    if old is None:
        return False
    await _put_back(transfer, old, copy, ran=True)
    return True


async def _find_pair(transfer: Transfer) -> tuple[DockerContainer | None, DockerContainer | None]:
    """Return the container and its copy, as far as they are there."""
    old, filters = (
        await find(transfer.source, transfer.container),
        filtered(label=f"{COPY_LABEL}={transfer.key}"),
    )
    for listed in await transfer.target.get(
        "/containers/json", list[ListedContainer], all="true", filters=filters
    ):
        return old, await find(transfer.target, listed.id)
    return old, None


async def _create(transfer: Transfer, old: DockerContainer, limits: Json) -> str:
    """Create the copy of a container, and return its id."""
    source, target = transfer.source, transfer.target
    if (stays := service_view(old).stays) is not None:
        raise DriverError(f"{old.plain_name} cannot move: {stays}")
    body = create_request(old, limits, transfer.key)
    await _require_same_image(source, target, old)
    await _require_networks(target, body)
    response = await target.post("/containers/create", body, name=old.plain_name)
    return msgspec.json.decode(response, type=_Created).id


async def _end(source: Engine, old: DockerContainer) -> None:
    """Stop and remove a container that its copy has replaced."""
    await stop(source, old)
    await source.delete(f"/containers/{old.id}", v="true")


async def remove(engine: Engine, container: str) -> None:
    """Remove a copy, also while it runs."""
    await engine.delete(f"/containers/{container}", force="true", v="true")


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
    try:
        there = await target.get(f"/images/{quote(name, safe='')}/json", _Image)
    except RefusedError as error:
        raise DriverError(f"the image {name} is not on the other host: pull it there first") from error
    here = await source.get(f"/images/{quote(container.image, safe='')}/json", _Image)
    # An image that was never pulled has no digest.
    if here.repo_digests and there.repo_digests and not {*here.repo_digests} & {*there.repo_digests}:
        raise DriverError(f"the image {name} differs on the other host: pull the same one there first")


async def _require_networks(target: Engine, body: Json) -> None:
    """Raise `DriverError` unless the target has a network of exactly this name for each.

    An engine also finds a network by the first digits of its id: a name must not select the host's network.
    """
    mode = body["HostConfig"].get("NetworkMode", "default")
    endpoints = body.get("NetworkingConfig", {}).get("EndpointsConfig", {})
    for name in {mode, *endpoints} - {*_NO_ADDRESS}:
        try:
            found = await target.get(f"/networks/{quote(name, safe='')}", _Network)
        except RefusedError:
            found = _Network("")
        if found.name != name or found.driver == "host":
            raise DriverError(f"the other host has no network called {name}: create it there first")


def create_request(container: DockerContainer, limits: Json, key: str) -> Json:
    """Return the body of `POST /containers/create`; `limits` are those from before a cut, if any."""
    from_id = short_id(container.id)
    config = portable_config(container.config)
    if config.get("Hostname") == from_id:
        config.pop("Hostname")
    config["Labels"] = {**(config.get("Labels") or {}), COPY_LABEL: key}
    body: Json = {**config, "HostConfig": portable_host_config({**container.host_config, **limits})}
    endpoints = {
        name: {"Aliases": [alias for alias in settings.get("Aliases") or [] if alias != from_id]}
        for name, settings in (container.network_settings.get("Networks") or {}).items()
        if name not in _NO_ADDRESS
    }
    if endpoints:
        body["NetworkingConfig"] = {"EndpointsConfig": endpoints}
    return body
