"""The pass over the queue against a plain implementation of the thesis' algorithm, on random clusters."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.features.promises.qos.queue import Hosts, Instances, Outcome
from collector.features.promises.qos.queue_pass import QueuePass
from collector.features.promises.qos.rules import QosSettings, qos_terms
from collector.snapshot.tables import NOWHERE
from tests.collector.features.promises.qos.reference import Host, Reference, Task

MARGIN = 10.0
PROMISES = ((1.0, 1), (0.9, 2), (0.5, 3))
SIZES = ((1.0, 1.0), (1.0, 2.0), (2.0, 1.0), (3.0, 3.0), (0.5, 0.5))


def random_case(seed: int) -> tuple[list[Host], list[Task]]:
    """A full cluster with a queue: few sizes, so that instances share what is found for others.

    No two hosts are alike, so that none are equally good.
    """
    draw = np.random.default_rng(seed)
    hosts = [Host(*draw.uniform(3.0, 9.0, size=2)) for _ in range(draw.integers(1, 8))]
    free = [[host.cpu, host.memory] for host in hosts]
    rules = [frozenset(range(len(hosts)))]
    rules.append(frozenset(np.flatnonzero(draw.random(len(hosts)) < 0.6).tolist()))
    tasks: list[Task] = []
    for number in range(draw.integers(1, 60)):
        cpu, memory = SIZES[draw.integers(len(SIZES))]
        availability, importance = PROMISES[draw.integers(3)]
        task = Task(
            number=number,
            cpu=cpu,
            memory=memory,
            slack=float(draw.normal(0.0, 60.0)) if availability < 1 else -float(draw.exponential(30.0)),
            importance=importance,
            availability=availability,
            overhead=float(draw.choice([0.0, 0.05, 0.2, 0.6])),
            allowed=rules[int(draw.random() < 0.2)],
            group=int(draw.integers(2)) if draw.random() < 0.2 else None,
        )
        fits = [
            host
            for host, (cpus, bytes_) in enumerate(free)
            if cpus >= cpu
            and bytes_ >= memory
            and all(each.host != host or each.group is None or each.group != task.group for each in tasks)
        ]
        if fits and draw.random() < 0.7:
            task.host = int(draw.choice(fits))
            task.is_protected = bool(draw.random() < 0.1)
            free[task.host][0] -= cpu
            free[task.host][1] -= memory
        tasks.append(task)
    return hosts, tasks


def run_pass(hosts: list[Host], tasks: list[Task], *, exact: bool = True) -> Outcome:
    capacity = np.array([(host.cpu, host.memory) for host in hosts])
    demand = np.array([(task.cpu, task.memory) for task in tasks])
    home = np.array([NOWHERE if task.host is None else task.host for task in tasks])
    free = capacity.copy()
    for host, amounts in zip(home, demand, strict=True):
        if host != NOWHERE:
            free[host] -= amounts
    everywhere = frozenset(range(len(hosts)))
    masks = sorted({task.allowed for task in tasks} | {everywhere}, key=len, reverse=True)
    instances = Instances(
        host=home,
        demand=demand,
        mask=np.array([masks.index(task.allowed) for task in tasks]),
        group=np.array([NOWHERE if task.group is None else task.group for task in tasks]),
        last_host=np.full(len(tasks), NOWHERE),
        importance=np.array([task.importance for task in tasks]),
        availability=np.array([task.availability for task in tasks]),
        slack_seconds=np.array([task.slack for task in tasks]),
        preemption_ratio=np.array([task.overhead for task in tasks]),
        startup_seconds=np.full(len(tasks), 5.0),
        admitted_seconds=np.full(len(tasks), 600.0),
        is_spare=np.zeros(len(tasks), dtype=np.bool_),
        may_stop=np.array([not task.is_protected for task in tasks]),
    )
    terms = qos_terms(instances, QosSettings(margin_seconds=MARGIN, exact=exact))
    allowed = np.array([[host in mask for host in range(len(hosts))] for mask in masks])
    cluster = Hosts(capacity=capacity, free=free, masks=allowed)
    return QueuePass(cluster, instances, terms).run()


@given(seed=st.integers(0, 100_000))
@settings(max_examples=300)
def test_the_pass_decides_as_the_algorithm_of_the_thesis(seed: int) -> None:
    hosts, tasks = random_case(seed)
    outcome = run_pass(hosts, tasks)
    expected = Reference(*random_case(seed), MARGIN).schedule()
    found = [(each.instance, each.host, frozenset(each.victims)) for each in outcome.assignments]
    assert found == expected


@given(seed=st.integers(0, 100_000), exact=st.booleans())
@settings(max_examples=200)
def test_no_host_holds_more_than_it_has(seed: int, *, exact: bool) -> None:
    hosts, tasks = random_case(seed)
    outcome = run_pass(hosts, tasks, exact=exact)
    stopped = [victim for each in outcome.assignments for victim in each.victims]
    started = [each.instance for each in outcome.assignments]
    assert len({*stopped, *started}) == len(stopped) + len(started)
    for victim in stopped:
        assert tasks[victim].host is not None
        tasks[victim].host = None
    for each in outcome.assignments:
        assert each.host in tasks[each.instance].allowed
        tasks[each.instance].host = each.host
    for number, host in enumerate(hosts):
        on = [task for task in tasks if task.host == number]
        assert sum(task.cpu for task in on) <= host.cpu + 1e-6
        assert sum(task.memory for task in on) <= host.memory + 1e-6
        groups = [task.group for task in on if task.group is not None]
        assert len(groups) == len(set(groups))
    waiting = {number for number, task in enumerate(tasks) if task.host is None and number not in stopped}
    assert set(outcome.left) == waiting


@given(seed=st.integers(0, 100_000), exact=st.booleans())
@settings(max_examples=200)
def test_no_instance_is_stopped_that_the_rules_protect(seed: int, *, exact: bool) -> None:
    hosts, tasks = random_case(seed)
    rules = Reference(hosts, tasks, MARGIN)
    for each in run_pass(hosts, tasks, exact=exact).assignments:
        assert all(rules.may_stop(tasks[each.instance], tasks[victim]) for victim in each.victims)


@given(seed=st.integers(0, 100_000))
@settings(max_examples=200)
def test_the_more_urgent_of_two_with_the_same_needs_does_not_wait_while_the_other_starts(seed: int) -> None:
    hosts, tasks = random_case(seed)
    outcome = run_pass(hosts, tasks, exact=False)
    for each in outcome.assignments:
        started = tasks[each.instance]
        for number in outcome.left:
            waits = tasks[number]
            alike = (waits.cpu, waits.memory, waits.allowed, waits.group, waits.importance) == (
                started.cpu,
                started.memory,
                started.allowed,
                started.group,
                started.importance,
            )
            assert not (alike and waits.slack < started.slack)
