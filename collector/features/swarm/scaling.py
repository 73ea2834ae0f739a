"""Changes of a service: its number of replicas, and the CPU limit of its tasks.

More replicas start where temporary constraints leave room, and Swarm chooses among these nodes. With fewer,
Swarm removes tasks that do not run first, then those of nodes with the most tasks of the service. Another
limit replaces every task, one after the other, each after its replacement runs.

A request states the desired numbers, so it can be repeated. After a crash, the service has either the old
numbers or the new ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from collector.act.drivers.engine.client import Json
from collector.act.drivers.interface import (
    ActionResult,
    DriverError,
    NotYet,
    undone_on_failure,
    unless_undone,
)
from collector.act.drivers.power import SwitchingDriver
from collector.decide.policies.actions import Resize, Scale, ServiceAction, describe_cores
from collector.features.swarm.client import Manager, ServiceProgress
from collector.features.swarm.models import ENDED, SwarmService, SwarmState, SwarmTask
from collector.features.swarm.specs import (
    NANOCPUS,
    Order,
    cpu_limit_of,
    groups_of,
    has_temporary_changes,
    parked_tasks,
    replicas_of,
    user_spec,
    with_constraints,
    with_cpu_limit,
    with_replicas,
    with_stopped,
)
from collector.features.swarm.views import service_view


@dataclass(frozen=True, slots=True)
class _TasksBefore:
    """The tasks of a service before a change."""

    ids: frozenset[str]
    """Including tasks that have ended."""
    running: frozenset[str]


class Scaler(SwitchingDriver):
    """Scales services, and changes their CPU limits."""

    _manager: Manager

    async def scale(self, action: Scale) -> ActionResult:
        cluster = await self._manager.read_state()
        service = _changeable(cluster, action)
        before = replicas_of(user_spec(service.spec)) or 0
        earlier = await self._tasks_of(cluster, service)
        chosen = {cluster.node(name).id for name in action.nodes}
        only = cluster.only_on(service, chosen) if chosen and before < action.replicas else []

        def change(spec: Json) -> Json:
            plain = with_replicas(user_spec(spec), action.replicas)
            if action.sheds:
                plain = with_stopped(plain, None if action.replicas else before)
            return with_constraints(plain, only, Order.START, 0.0) if only else plain

        await self._manager.change_service(service.id, change)
        return await self._finish_scaling(cluster, service, action, before, earlier)

    async def recover_scale(self, action: Scale) -> ActionResult | None:
        """Go on if the service has the new number of replicas: it is changed by one request."""
        cluster = await self._manager.read_state()
        service = next((each for each in cluster.services if each.name == action.service), None)
        if service is None or replicas_of(user_spec(service.spec)) != action.replicas:
            return None
        earlier = await self._tasks_of(cluster, service)
        return await unless_undone(
            self._finish_scaling(cluster, service, action, action.replicas_before, earlier)
        )

    async def _finish_scaling(
        self,
        cluster: SwarmState,
        service: SwarmService,
        action: Scale,
        before: int,
        earlier: _TasksBefore,
    ) -> ActionResult:
        """Wait until the tasks are as many as wanted, and remove the temporary constraints; or undo it."""
        async with undone_on_failure(
            f"{service.name} was not scaled to {action.replicas}",
            lambda: self._restore(service, action, before),
        ):
            tasks = await self._wait_until_scaled(
                service, action.replicas, cpu_limit_of(service.spec), earlier
            )
        what = f"scaled {service.name} from {before} to {action.replicas} replicas"
        new = sorted({cluster.node_of[each.node_id].name for each in tasks if each.id not in earlier.ids})
        what = f"{what}, on {', '.join(new)}" if new else what
        return await self._done(service, what, tasks, nothing_to_do=before == action.replicas)

    async def unscale(self, action: Scale) -> None:
        cluster = await self._manager.read_state()
        await self._restore(cluster.service(action.service), action, action.replicas_before)

    async def resize(self, action: Resize) -> ActionResult:
        cluster = await self._manager.read_state()
        service = _changeable(cluster, action)
        reserved = service_view(service).reserve.cpu_cores
        if reserved is not None and reserved > action.cpu_limit_cores:
            raise DriverError(
                f"{service.name} reserves {describe_cores(reserved)} per task: lower the reservation to limit"
                f" it to {describe_cores(action.cpu_limit_cores)}"
            )
        earlier = await self._tasks_of(cluster, service)
        await self._limit(service, action.cpu_limit_cores)
        return await self._finish_resizing(service, action, earlier)

    async def recover_resize(self, action: Resize, noted: bytes) -> ActionResult | None:  # noqa: ARG002 - Swarm knows
        """Go on if the service has the new limit: it is changed by one request."""
        cluster = await self._manager.read_state()
        service = next((each for each in cluster.services if each.name == action.service), None)
        if service is None or with_cpu_limit(service.spec, action.cpu_limit_cores) != service.spec:
            return None
        return await unless_undone(
            self._finish_resizing(service, action, await self._tasks_of(cluster, service))
        )

    async def _finish_resizing(
        self, service: SwarmService, action: Resize, earlier: _TasksBefore
    ) -> ActionResult:
        """Wait until every task has the limit, and remove the temporary settings; or undo it."""
        replicas = service_view(service).replicas
        nano_cpus = round(action.cpu_limit_cores * NANOCPUS)
        async with undone_on_failure(
            f"{service.name} keeps its CPU limit", lambda: self._limit_again(service, action)
        ):
            tasks = await self._wait_until_scaled(
                service, replicas, nano_cpus, earlier, rounds=max(1, replicas)
            )
        what = f"limited each task of {service.name} to {describe_cores(action.cpu_limit_cores)}"
        return await self._done(service, what, tasks)

    async def unresize(self, action: Resize, done: ActionResult) -> None:  # noqa: ARG002 - the action has it
        cluster = await self._manager.read_state()
        await self._limit_again(cluster.service(action.service), action)

    async def _limit(self, service: SwarmService, cores: float | None) -> None:
        def change(spec: Json) -> Json:
            plain = user_spec(spec)
            wanted = with_cpu_limit(plain, cores)
            if wanted == plain:
                return plain
            return with_constraints(wanted, (), service.update_order, self._settings.stable_seconds)

        await self._manager.change_service(service.id, change)

    async def _limit_again(self, service: SwarmService, action: Resize) -> None:
        now = await self._manager.service(service.id)
        if with_cpu_limit(now.spec, action.cpu_limit_cores) == now.spec:
            await self._limit(service, action.cpu_limit_cores_before)

    async def _restore(self, service: SwarmService, action: Scale, before: int) -> None:
        def change(spec: Json) -> Json:
            plain = user_spec(spec)
            if replicas_of(plain) != action.replicas:
                return plain
            restored = with_replicas(plain, before)
            return with_stopped(restored, None if before else action.replicas) if action.sheds else restored

        await self._manager.change_service(service.id, change)

    async def _done(
        self, service: SwarmService, what: str, tasks: Sequence[SwarmTask], *, nothing_to_do: bool = False
    ) -> ActionResult:
        what = await self._manager.remove_constraints(service.id, what)
        containers = tuple(sorted(task.container for task in tasks))
        return ActionResult(what=what, containers=containers, nothing_to_do=nothing_to_do)

    async def _tasks_of(self, cluster: SwarmState, service: SwarmService) -> _TasksBefore:
        tasks = await self._manager.tasks(service.id)
        # Tasks of a node that is down are listed as running until it comes back.
        up = {node.id for node in cluster.nodes if node.ready}
        return _TasksBefore(
            frozenset(each.id for each in tasks),
            frozenset(each.id for each in tasks if each.node_id in up and each.status.state not in ENDED),
        )

    async def _wait_until_scaled(
        self, service: SwarmService, replicas: int, nano_cpus: int, earlier: _TasksBefore, rounds: int = 1
    ) -> list[SwarmTask]:
        """Wait until as many tasks as wanted are healthy and no other is left. Raise `DriverError`.

        In each of the rounds a task starts after another, within the time limit.
        """

        def complete(now: ServiceProgress) -> list[SwarmTask]:
            is_whole = len(now.wanted) == replicas and all(
                task.runs and task.nano_cpus == nano_cpus for task in now.wanted
            )
            old = (task for task in now.tasks if task.id in earlier.running and not task.wanted)
            if is_whole and not now.service.is_updating and all(task.status.state in ENDED for task in old):
                return now.wanted
            new = (task for task in now.tasks if task.id not in earlier.ids)
            if now.has_failed or any(task.status.state in {"failed", "rejected"} for task in new):
                raise DriverError(now.obstacle(earlier.ids))
            raise NotYet(now.obstacle(earlier.ids))

        settings = self._settings
        seconds = settings.healthy_seconds + settings.stable_seconds + service.stop_seconds
        return await self._manager.wait(service.id, complete, rounds * seconds)


def _changeable(cluster: SwarmState, action: ServiceAction) -> SwarmService:
    """Return a service that can be changed now. Raise `DriverError`."""
    service = cluster.service(action.service)
    if replicas_of(service.spec) is None:
        raise DriverError(f"{service.name} cannot be changed: it is a job, or runs on every node")
    if groups_of(service.spec):
        raise DriverError(f"{service.name} cannot be changed yet: it is being deployed")
    if parked_tasks(service.spec):
        raise DriverError(f"{service.name} cannot be changed yet: one of its tasks waits for its turn")
    if service.is_updating and not has_temporary_changes(service.spec):
        raise DriverError(f"{service.name} is being updated: wait until the update ends")
    return service
