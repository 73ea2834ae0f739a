"""A container made anew on another host, seen to be well there, and only then ended here."""

import asyncio
from urllib.parse import quote

import msgspec

from collector.config import DriverConfig
from collector.drivers.docker.client import Engine, EngineError, Json
from collector.drivers.docker.models import DockerContainer, service_view
from collector.drivers.docker.recipe import recipe
from collector.drivers.interface import DriverError
from collector.drivers.polling import until


class _Made(msgspec.Struct, rename="pascal", frozen=True):
    id: str


class _Image(msgspec.Struct, rename="pascal", frozen=True):
    repo_digests: list[str] | None = None


async def move(
    source: Engine, target: Engine, container: str, settings: DriverConfig, limits: Json | None
) -> tuple[str, str]:
    """Move a container from one engine to another; gives the new one's id, and a remark."""
    old = await source.get(f"/containers/{container}/json", DockerContainer)
    if (stays := service_view(old).stays) is not None:
        raise DriverError(f"{old.called} stays where it is: {stays}")
    await _same_image(source, target, old)
    said = await target.post("/containers/create", recipe(old, limits), name=old.called)
    made = msgspec.json.decode(said, type=_Made).id
    try:
        await target.post(f"/containers/{made}/start")
        await well(target, made, settings)
    except BaseException:
        # Also when the collector is being stopped: two of it must not go on.
        await asyncio.shield(target.delete(f"/containers/{made}", force="true", v="true"))
        raise
    try:
        await stop(source, old)
        await source.delete(f"/containers/{container}", v="true")
    except DriverError as error:  # two that run are less of a harm than none
        return made, f", but the old one could not be removed: {error}"
    return made, ""


async def stop(engine: Engine, container: DockerContainer) -> None:
    """End a container, and wait as long as it may take to."""
    await engine.post(f"/containers/{container.id}/stop", takes_seconds=container.stop_seconds)


async def well(engine: Engine, container: str, settings: DriverConfig) -> None:
    """Wait until a container is healthy, if it says how to tell, and has run on for a while."""

    async def is_well() -> bool:
        now = await engine.get(f"/containers/{container}/json", DockerContainer)
        if now.restart_count or now.state.is_well is False:
            raise DriverError("it did not stay up")
        return bool(now.state.is_well)

    try:
        await until(is_well, settings.healthy_seconds)
    except TimeoutError:
        raise DriverError(f"it was not healthy within {settings.healthy_seconds:g} s") from None
    await asyncio.sleep(settings.stable_seconds)
    await is_well()


async def _same_image(source: Engine, target: Engine, container: DockerContainer) -> None:
    """Refuse where the image is missing, or where its name stands for something else."""
    name = str(container.config.get("Image", ""))
    path = f"/images/{quote(name, safe='')}/json"
    try:
        there = await target.get(path, _Image)
    except EngineError as refused:
        raise DriverError(f"the image {name} is not on the other host: pull it there first") from refused
    here = await source.get(f"/images/{quote(container.image, safe='')}/json", _Image)
    # An image that was never pulled has no digest to be known by.
    if here.repo_digests and there.repo_digests and not {*here.repo_digests} & {*there.repo_digests}:
        raise DriverError(f"the image {name} is another one on the other host: pull the same there first")
