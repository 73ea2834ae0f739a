"""Streams of containers as in the evaluations of papers: GenPack, Energy4Cloud and DRAPS."""

from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.common.arrays import Floats
from collector.snapshot.tables import TaskKind
from replay.setup.hosts import MEBIBYTE, MEGABYTE
from replay.setup.scenario import NotNegative, Positive, Share, Table
from replay.setup.workload import Steady, Workload, build_workload, columns, numbered


class BorgSettings(Table, frozen=True, kw_only=True):
    """A stream of short jobs as in GenPack's sample of Google's Borg trace.

    The paper took a hundredth of the jobs of 12 hours: 49,202 jobs, 68.3 a minute, at most 102 at once, of
    39 s (5th percentile) to 50 minutes, that reserve at most 42 cores and 40 GB together. The sample itself
    is not published; these jobs are drawn to match its figures.
    """

    hours: Positive = 12.0
    jobs_per_minute: Positive = 68.3
    shortest_seconds: Positive = 36.0
    usual_seconds: Positive = 8.0
    """Median time of usual jobs beyond the shortest."""
    long_ratio: Share = 0.018
    """Share of jobs in the long tail, from two minutes to the longest."""
    longest_seconds: Annotated[float, Meta(gt=120)] = 3000.0
    mean_cores: Positive = 0.38
    mean_memory_mb: Positive = 370.0
    """Mean reservation of jobs; a few reserve much more than the others."""
    used_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.8
    """Mean share of its reservation that a job uses."""


_SPREAD = 0.7
_LONG_SECONDS = 120.0
_STEP_SECONDS = 30.0
_MOST = 6.0
"""The largest reservation relative to the mean; it still fits a node."""


def generate_borg(settings: BorgSettings, seed: int) -> Workload:
    """Generate the jobs."""
    rng = np.random.default_rng(seed)
    seconds = settings.hours * 3600
    count = round(settings.jobs_per_minute * seconds / 60)
    arrivals = np.sort(rng.uniform(0.0, seconds, count))
    usual = settings.shortest_seconds + rng.lognormal(np.log(settings.usual_seconds), _SPREAD, count)
    tail = np.exp(rng.uniform(np.log(_LONG_SECONDS), np.log(settings.longest_seconds), count))
    lifetimes = np.where(rng.uniform(size=count) < settings.long_ratio, tail, usual)
    mean_of_lognormal = np.exp(_SPREAD**2 / 2)
    drawn = np.minimum(rng.lognormal(0.0, _SPREAD, (count, 2)) / mean_of_lognormal, _MOST)
    cores, memory = settings.mean_cores * drawn[:, 0], settings.mean_memory_mb * MEBIBYTE * drawn[:, 1]
    requested = columns(cores, memory, rest=np.nan, count=count)
    ratio = np.clip(rng.normal(settings.used_ratio, 0.1, (count, 2)), 0.1, 1.0)
    level = columns(cores * ratio[:, 0], memory * ratio[:, 1], count=count)
    return build_workload(
        numbered(count),
        requested,
        Steady.around(level, rng, wave_ratio=0.1),
        arrival_seconds=arrivals,
        lifetime_seconds=np.minimum(lifetimes, settings.longest_seconds),
        kind=np.full(count, TaskKind.JOB, dtype=np.int8),
        duration_seconds=seconds,
        step_seconds=_STEP_SECONDS,
    )


_SHARES_PER_CORE = 1024.0
_MOST_SHARES = 1024.0
_JOB_SHARES, _SERVICE_SHARES = 204.0, 2.0
_MEMORY_MB = (256.0, 2048.0)
_LIFETIME_SECONDS = (30.0, 1800.0)
_CLASSES = (0.10, 0.30, 0.45, 0.15)
_TYPES = ("ffmpeg", "redis", "deep-learning", "timeserver")
_IS_JOB = np.array([True, False, True, False])
_JOB_CORES = 1.7
"""CPU that a job uses if available, since shares are weights, not limits. With this value, spread uses as
much CPU as in the thesis."""
_CPU_USED = np.array([0.0, 0.3, 0.0, 0.05])
_MEMORY_USED = np.array([0.3, 0.9, 0.9, 0.1])
"""Share of its request that each type uses: the thesis names the dominant resource, but no amounts."""


class CloudHourSettings(Table, frozen=True, kw_only=True):
    """An hour of requests as in Energy4Cloud's evaluation: more than fit, in four classes.

    Two requests arrive every second until together they request 150 % of the cluster. Then requests pause for
    their average lifetime. Demands and lifetimes are distributed exponentially, between limits.
    """

    hours: Positive = 1.0
    requests_per_second: Positive = 2.0
    limit_shares: Positive = 61_440.0
    limit_memory_mb: Positive = 92_160.0
    """Requests pause when their sum reaches these limits."""
    demand_rate: Positive = 1.0
    """Rate of the exponential distributions of CPU and memory between their limits.

    The thesis does not state it, but its 636 cuts took 177 shares and 305 MB each: tasks request a gigabyte.
    """
    lifetime_rate: Positive = 22.0
    """Rate of the distribution of lifetimes. The default gives the number of requests of the thesis."""
    stop_seconds: NotNegative = 10.0
    """Time for which a stopping container keeps its place: the default of Docker."""


def generate_cloud_hour(settings: CloudHourSettings, seed: int) -> Workload:
    """Generate the requests."""
    rng = np.random.default_rng(seed)
    seconds = settings.hours * 3600
    most = int(settings.requests_per_second * seconds) + 1
    kind = rng.integers(0, len(_TYPES), most)
    rates = settings.demand_rate, settings.demand_rate, settings.lifetime_rate
    shares, memory_mb, lifetimes = (_truncated_exponential(rng, rate, most) for rate in rates)
    least = np.where(_IS_JOB[kind], _JOB_SHARES, _SERVICE_SHARES)
    shares = least + shares * (_MOST_SHARES - least)
    memory_mb = _MEMORY_MB[0] + memory_mb * (_MEMORY_MB[1] - _MEMORY_MB[0])
    lifetimes = _LIFETIME_SECONDS[0] + lifetimes * (_LIFETIME_SECONDS[1] - _LIFETIME_SECONDS[0])
    arrivals = _arrivals(settings, shares, memory_mb, lifetimes)
    count = int((arrivals < seconds).sum())
    kind, shares, memory_mb = kind[:count], shares[:count], memory_mb[:count]
    cores, memory = shares / _SHARES_PER_CORE, memory_mb * MEBIBYTE
    used_cores = np.where(_IS_JOB[kind], _JOB_CORES, cores * _CPU_USED[kind])
    level = columns(used_cores, memory * _MEMORY_USED[kind], count=count)
    return build_workload(
        numbered(count, [_TYPES[each] for each in kind]),
        columns(cores, memory, rest=np.nan, count=count),
        Steady.around(level, rng, wave_ratio=0.1, ramp_seconds=5.0),
        services=tuple(_TYPES[each] for each in kind),
        arrival_seconds=arrivals[:count],
        lifetime_seconds=lifetimes[:count] + settings.stop_seconds,
        task_class=(1 + rng.choice(len(_CLASSES), count, p=_CLASSES)).astype(np.int8),
        kind=np.where(_IS_JOB[kind], TaskKind.JOB, TaskKind.SERVICE).astype(np.int8),
        duration_seconds=seconds,
        step_seconds=_STEP_SECONDS,
        jobs_stretch=False,
    )


def _arrivals(settings: CloudHourSettings, shares: Floats, memory_mb: Floats, lifetimes: Floats) -> Floats:
    """Arrival times: in rounds, with a pause as long as the round's average lifetime."""
    arrivals = np.empty(shares.size)
    now, began = 0.0, 0
    for place in range(shares.size):
        arrivals[place] = now
        now += 1 / settings.requests_per_second
        so_far = slice(began, place + 1)
        over_shares = shares[so_far].sum() >= settings.limit_shares
        if over_shares or memory_mb[so_far].sum() >= settings.limit_memory_mb:
            now += float(lifetimes[so_far].mean())
            began = place + 1
    return arrivals


def _truncated_exponential(rng: np.random.Generator, rate: float, count: int) -> Floats:
    """Numbers from 0 to 1 of an exponential distribution that is truncated at 1."""
    drawn: Floats = -np.log1p(-rng.uniform(size=count) * -np.expm1(-rate)) / rate
    return drawn


_IMAGE_STEP_SECONDS = 5.0
_RAMP_SECONDS = 20.0
_IDLE: dict[str, tuple[float, float]] = {
    # MB and cores
    "mongodb": (70, 0.005),
    "mysql": (190, 0.003),
    "postgres": (12, 0.001),
    "cassandra": (240, 0.015),
    "rethinkdb": (50, 0.004),
    "registry": (10, 0.001),
    "memcached": (4, 0.001),
    "tomcat": (110, 0.003),
    "httpd": (8, 0.001),
    "redis": (4, 0.002),
    "haproxy": (8, 0.001),
    "jetty": (95, 0.003),
    "nginx": (4, 0.001),
    "glassfish": (260, 0.008),
    "rabbitmq": (90, 0.006),
    "zookeeper": (85, 0.002),
    "activemq": (160, 0.004),
    "ghost": (110, 0.002),
}
_LOADED_MEMORY, _LOADED_CORES, _LOADED_IO = 1.1, 0.05, 0.2 * MEGABYTE


class ImagesSettings(Table, frozen=True, kw_only=True):
    """Containers of popular images, one every few seconds, as in the evaluation of DRAPS.

    Eighteen images in four groups, some containers of each that is drawn. Idle usage is typical of these
    services, scaled to the paper: 34 idle containers fill 69 % of a worker with 4 GB.
    """

    containers: Annotated[int, Meta(ge=1)] = 100
    per_image: Annotated[int, Meta(ge=1)] = 10
    every_seconds: Positive = 5.0
    seconds: Positive = 1000.0
    loaded: bool = False
    """Whether every other container serves clients."""


def generate_images(settings: ImagesSettings, seed: int) -> Workload:
    """Generate the containers, in random order."""
    rng = np.random.default_rng(seed)
    images = rng.permutation(sorted(_IDLE))[: -(-settings.containers // settings.per_image)]
    names = [
        str(name) for name in rng.permutation(np.repeat(images, settings.per_image))[: settings.containers]
    ]
    count = len(names)
    memory = np.array([_IDLE[name][0] for name in names]) * MEBIBYTE
    cores = np.array([_IDLE[name][1] for name in names])
    serves = np.zeros(count, dtype=np.bool_)
    if settings.loaded:
        serves[::2] = True
    level = columns(
        cores + np.where(serves, _LOADED_CORES, 0.0),
        memory * np.where(serves, _LOADED_MEMORY, 1.0),
        np.where(serves, _LOADED_IO, 0.0),
        np.where(serves, _LOADED_IO, 0.0),
        count=count,
    )
    return build_workload(
        numbered(count, names),
        columns(rest=np.nan, count=count),
        Steady.around(level, rng, wave_ratio=0.05, ramp_seconds=_RAMP_SECONDS),
        services=tuple(names),
        arrival_seconds=settings.every_seconds * np.arange(count, dtype=np.float64),
        duration_seconds=settings.seconds,
        step_seconds=_IMAGE_STEP_SECONDS,
    )
