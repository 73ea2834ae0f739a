"""Algorithm 1 of the thesis, host by host and instance by instance: slow, and easy to compare with it."""

from dataclasses import dataclass
from math import inf


@dataclass
class Task:
    """An instance."""

    number: int
    cpu: float
    memory: float
    slack: float
    importance: int
    availability: float = 0.9
    overhead: float = 0.0
    host: int | None = None
    allowed: frozenset[int] = frozenset()
    group: int | None = None
    is_protected: bool = False


@dataclass
class Host:
    """A host."""

    cpu: float
    memory: float


Schedule = list[tuple[int, int, frozenset[int]]]
"""The instances that start, their hosts, and the instances that are stopped for them."""


class Reference:
    """The exact rules, with what the thesis leaves open filled in as in the spec."""

    def __init__(self, hosts: list[Host], tasks: list[Task], margin: float) -> None:
        self._hosts, self._tasks, self._margin = hosts, tasks, margin
        self._importances = sorted({each.importance for each in tasks})

    def schedule(self) -> Schedule:
        started: dict[int, tuple[int, frozenset[int]]] = {}
        queue = [each for each in self._tasks if each.host is None]
        for task in sorted(queue, key=lambda each: (each.slack, each.importance)):
            found = [
                (host, victims)
                for host in sorted(task.allowed)
                if (victims := self._room(task, host)) is not None
            ]
            if not found:
                continue
            without = [each for each in found if not each[1]]
            if without:
                host, victims = max(without, key=lambda each: self._points(task, each[0]))
            else:
                host, victims = min(found, key=lambda each: self._cost(each[1]))
                victims = self._needed(task, host, victims)
            stopped: set[int] = set()
            for victim in victims:
                victim.host = None
                before = started.pop(victim.number, None)
                stopped |= {victim.number} if before is None else before[1]
            task.host = host
            started[task.number] = host, frozenset(stopped)
        return [(number, host, victims) for number, (host, victims) in started.items()]

    def _on(self, host: int) -> list[Task]:
        return [each for each in self._tasks if each.host == host]

    def _free(self, host: int) -> tuple[float, float]:
        on = self._on(host)
        where = self._hosts[host]
        return where.cpu - sum(each.cpu for each in on), where.memory - sum(each.memory for each in on)

    def _room(self, task: Task, host: int) -> list[Task] | None:
        """The victims that make room, none if there is room, None if there is no way."""
        on = self._on(host)
        if task.group is not None and any(each.group == task.group for each in on):
            return None
        cpu, memory = self._free(host)
        victims: list[Task] = []
        for each in [None, *sorted(on, key=lambda each: -each.slack)]:
            if each is not None:
                if not self.may_stop(task, each):
                    continue
                victims.append(each)
                cpu, memory = cpu + each.cpu, memory + each.memory
            if cpu >= task.cpu - 1e-9 and memory >= task.memory - 1e-9:
                return victims
        return None

    def may_stop(self, waiting: Task, running: Task) -> bool:
        """The three rules and the limiter."""
        more_important = waiting.importance < running.importance
        if running.is_protected or (running.overhead >= 1 - running.availability and not more_important):
            return False
        if running.slack >= self._margin:
            return waiting.slack < running.slack
        if waiting.slack >= self._margin:
            return False
        return more_important or (waiting.importance == running.importance and waiting.slack < running.slack)

    def _needed(self, task: Task, host: int, victims: list[Task]) -> list[Task]:
        """Without those that turn out not to be needed, the last found first."""
        needed = list(victims)
        for each in reversed(victims):
            free = self._free(host)
            rest = [other for other in needed if other is not each]
            cpu = free[0] + sum(other.cpu for other in rest)
            memory = free[1] + sum(other.memory for other in rest)
            if cpu >= task.cpu - 1e-9 and memory >= task.memory - 1e-9:
                needed = rest
        return needed

    def _points(self, task: Task, host: int) -> float:
        free, where = self._free(host), self._hosts[host]
        cpu, memory = 1 - (free[0] - task.cpu) / where.cpu, 1 - (free[1] - task.memory) / where.memory
        least_requested, balanced = ((1 - cpu) + (1 - memory)) / 2, 1 - abs(cpu - memory)
        return (10 * least_requested + 10 * balanced) / 2

    def _cost(self, victims: list[Task]) -> tuple[float, ...]:
        costs = []
        for importance in self._importances:
            below = [
                each.slack - self._margin
                for each in victims
                if each.slack < self._margin and each.importance == importance
            ]
            costs.append(1 / sum(below) if below else -inf)
        above = [each.slack - self._margin for each in victims if each.slack >= self._margin]
        return (*costs, 1 / sum(above) if above else 0.0)
