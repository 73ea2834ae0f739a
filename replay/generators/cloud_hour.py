"""An hour of requests as in Energy4Cloud's evaluation: more than fit, in four classes.

Two requests arrive every second until together they request 150 % of the cluster. Then requests pause for
their average lifetime. Demands and lifetimes are distributed exponentially, between limits.
"""

import numpy as np

from collector.common.arrays import Floats
from collector.snapshot.tables import TaskKind
from replay.setup.hosts import MEBIBYTE
from replay.setup.scenario import NotNegative, Positive, Table
from replay.setup.workload import Steady, Workload, build_workload, columns, numbered

_SHARES_PER_CORE = 1024.0
_MOST_SHARES = 1024.0
_JOB_SHARES, _SERVICE_SHARES = 204.0, 2.0
_MEMORY_MB = (256.0, 2048.0)
_LIFETIME_SECONDS = (30.0, 1800.0)
_CLASSES = (0.10, 0.30, 0.45, 0.15)
_STEP_SECONDS = 30.0
_TYPES = ("ffmpeg", "redis", "deep-learning", "timeserver")
_IS_JOB = np.array([True, False, True, False])
_JOB_CORES = 1.7
"""CPU that a job uses if available, since shares are weights, not limits. With this value, spread uses as
much CPU as in the thesis."""
_CPU_USED = np.array([0.0, 0.3, 0.0, 0.05])
_MEMORY_USED = np.array([0.3, 0.9, 0.9, 0.1])
"""Share of its request that each type uses: the thesis names the dominant resource, but no amounts."""


class CloudHourSettings(Table, frozen=True, kw_only=True):
    """Settings of the generator."""

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


def generate(settings: CloudHourSettings, seed: int) -> Workload:
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
