"""Containers of popular images, one every few seconds, as in the evaluation of DRAPS.

Eighteen images in four groups, ten containers of each image that is drawn. Idle usage is typical of these
services, scaled to the paper: 34 idle containers fill 69 % of a worker with 4 GB.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from replay.setup.hosts import MEBIBYTE, MEGABYTE
from replay.setup.scenario import Positive, Table
from replay.setup.workload import Steady, Workload, build_workload, columns, numbered

_STEP_SECONDS = 5.0
_RAMP_SECONDS = 20.0
_PER_IMAGE = 10
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
    """Settings of the generator."""

    containers: Annotated[int, Meta(ge=1)] = 100
    every_seconds: Positive = 5.0
    seconds: Positive = 1000.0
    loaded: bool = False
    """Whether every other container serves clients."""


def generate(settings: ImagesSettings, seed: int) -> Workload:
    """Generate the containers, in random order."""
    rng = np.random.default_rng(seed)
    images = rng.permutation(sorted(_IDLE))[: -(-settings.containers // _PER_IMAGE)]
    names = [str(name) for name in rng.permutation(np.repeat(images, _PER_IMAGE))[: settings.containers]]
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
        step_seconds=_STEP_SECONDS,
    )
