"""Changes of the limits of running containers."""

import msgspec

from collector.drivers.engine.client import Engine, Json
from collector.drivers.engine.limits import current_limits, limit_changes, restore_changes
from collector.drivers.engine.models import ContainerStats, DockerContainer
from collector.drivers.interface import ActionResult, DriverError
from collector.policies.actions import Cut, describe_amounts, megabytes


class _LimitsBefore(msgspec.Struct, frozen=True):
    """The data that undoing a cut needs."""

    limits: Json


class _Info(msgspec.Struct, frozen=True):
    memory_bytes: int = msgspec.field(name="MemTotal", default=0)


async def cut(engine: Engine, action: Cut) -> ActionResult:
    """Limit a container, but never to less memory than it uses."""
    path = f"/containers/{action.task}"
    now = current_limits((await engine.get(f"{path}/json", DockerContainer)).host_config)
    changes = limit_changes(now, action.allocated)
    if not changes:
        return ActionResult(what=f"{action.title} already has these limits", nothing_to_do=True)
    memory_bytes = changes.get("Memory")
    if memory_bytes is not None and (not now["Memory"] or memory_bytes < now["Memory"]):
        stats = await engine.get(f"{path}/stats", ContainerStats, stream="false", **{"one-shot": "true"})
        if stats.working_set_bytes >= memory_bytes:
            used, left = megabytes(stats.working_set_bytes), megabytes(memory_bytes)
            raise DriverError(
                f"{action.title} on {action.node} uses {used} of memory: a limit of {left} would kill it"
            )
    await engine.post(f"{path}/update", changes)
    return ActionResult(
        what=f"limited {action.title} on {action.node} to {describe_amounts(action.allocated)}",
        before=msgspec.json.encode(_LimitsBefore(now)),
    )


async def uncut(engine: Engine, action: Cut, done: ActionResult) -> None:
    """Restore the limits of a container from before a cut."""
    before = limits_before(done)
    path = f"/containers/{action.task}"
    now = current_limits((await engine.get(f"{path}/json", DockerContainer)).host_config)
    info = await engine.get("/info", _Info)
    if changes := restore_changes(now, before, info.memory_bytes):
        await engine.post(f"{path}/update", changes)


def limits_before(done: ActionResult) -> Json:
    """Return the limits of a container from before a cut."""
    return msgspec.json.decode(done.before, type=_LimitsBefore).limits
