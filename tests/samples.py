"""A generated sample of each published data set: enough to run every command, but not measured."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

from wattpack.datasets.catalogue import DATASETS, Dataset

_SLOTS_PER_DAY = 288
_SLOT_SECONDS = 300
_PLANETLAB_MACHINES = 60
_BITBRAINS_MACHINES, _BITBRAINS_DAYS = 16, 7
_RECORDED_SAMPLES, _RECORDED_SECONDS = 150, 2
_TASKS, _CONTAINERS, _HOURS = 40, 20, 6
_REQUESTS, _REQUEST_HOSTS, _SUBMISSIONS = 150, 8, 240
_KIBIBYTES_PER_GIBIBYTE = 1 << 20
_START_SECONDS = 1_375_660_800
"""5 August 2013: the start of the Bitbrains week that scenarios read."""

Files = Iterator[tuple[str, str]]
"""Paths below the folder of the set (empty if it is one file), each with its text."""


def write_sample(folder: Path) -> None:
    """Write a sample of every set below a new folder."""
    for dataset in DATASETS.values():
        if dataset.format not in _MAKERS or not dataset.published:
            continue
        place = folder / dataset.published[0]
        if not place.exists():
            # A set's own generator, so that each stays the same when another is added.
            for name, text in _MAKERS[dataset.format](dataset, Random(dataset.name)):  # noqa: S311
                path = place / name if name else place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")


def _planetlab(_: Dataset, random: Random) -> Files:
    for number in range(_PLANETLAB_MACHINES):
        mean, swing = random.betavariate(1, 5), random.uniform(0.1, 0.6)
        shares = (mean * (1 + swing * _wave(slot) + random.gauss(0, 0.3)) for slot in range(_SLOTS_PER_DAY))
        yield f"host{number:03}_sample_org_ slice", "".join(f"{_percent(share)}\n" for share in shares)


def _bitbrains(_: Dataset, random: Random) -> Files:
    header = (
        "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\tCPU usage [%];\t"
        "Memory capacity provisioned [KB];\tMemory usage [KB];\tDisk read throughput [KB/s];\t"
        "Disk write throughput [KB/s];\tNetwork received throughput [KB/s];\t"
        "Network transmitted throughput [KB/s]"
    )
    for number in range(1, _BITBRAINS_MACHINES + 1):
        cores = random.choice((1, 2, 4, 8))
        megahertz, kibibytes = 2600 * cores, 2 * cores * _KIBIBYTES_PER_GIBIBYTE
        mean, memory = random.betavariate(1, 6), random.uniform(0.1, 0.5)
        lines = [header]
        for slot in range(_BITBRAINS_DAYS * _SLOTS_PER_DAY):
            share = _unit(mean * (1 + 0.5 * _wave(slot) + random.gauss(0, 0.3)))
            rates = (random.expovariate(1 / (1 + 200 * share)) for _ in range(4))
            values = (
                megahertz * share,
                100 * share,
                kibibytes,
                kibibytes * _unit(memory * (1 + random.gauss(0, 0.05))),
                *rates,
            )
            cells = (f"{_START_SECONDS + slot * _SLOT_SECONDS}", f"{cores}", f"{megahertz}")
            lines.append(";\t".join((*cells, *(f"{value:.4f}" for value in values))))
        yield f"{number}.csv", "\n".join(lines) + "\n"


def _recording(_: Dataset, random: Random) -> Files:
    header = (
        "timestamp,powerWatts,bytes_read,bytes_written,mem_buffers,mem_cached,mem_free,bytes_in,bytes_out,"
        "cpu_idle,cpu_intr,cpu_nice,cpu_sintr,cpu_system,cpu_user,cpu_wio"
    )
    idle, linear, root = random.uniform(60, 140), random.uniform(60, 150), random.uniform(20, 60)
    free = 30 * _KIBIBYTES_PER_GIBIBYTE
    for place, mean in (
        ("Disk.csv", 0.05),
        ("Network.csv", 0.1),
        ("validation/data_caching.csv", 0.4),
        ("validation/data_serving.csv", 0.6),
        ("validation/web_search.csv", 0.3),
    ):
        lines = [header]
        for number in range(_RECORDED_SAMPLES):
            share = _unit(mean * (1 + math.sin(number / 15) + random.gauss(0, 0.1)))
            watts = (idle + linear * share + root * math.sqrt(share)) * random.gauss(1, 0.02)
            disk, network = (random.expovariate(1 / 1e6) for _ in range(2))
            used = free * _unit(random.gauss(0.3, 0.02))
            values = (watts, disk / 3, disk, 2e5, 1e6, free - used, network, network)
            shares = (100 * (1 - share), 0.0, 0.0, 0.0, 20 * share, 80 * share, 0.0)
            stamp = f"{_START_SECONDS + number * _RECORDED_SECONDS}"
            lines.append(",".join((stamp, *(f"{value:.2f}" for value in (*values, *shares)))))
        yield place, "\n".join(lines) + "\n"


def _google(_: Dataset, random: Random) -> Files:
    lines: list[str] = []
    for task in range(_TASKS):
        cpu, memory = random.betavariate(1, 30), random.betavariate(1, 30)
        first = random.randrange(_HOURS * 6)
        for slot in range(first, _HOURS * 12):
            begin = slot * _SLOT_SECONDS * 1_000_000
            used = f"{cpu * random.uniform(0.5, 1.5):.5f},{memory:.5f},{1.5 * memory:.5f}"
            lines.append(
                f"{begin},{begin + _SLOT_SECONDS * 1_000_000},{task // 4},{task % 4},1,{used}{',' * 12}"
            )
    yield "", "\n".join(lines) + "\n"


def _alibaba(_: Dataset, random: Random) -> Files:
    lines: list[str] = []
    for number in range(_CONTAINERS):
        cpu, memory = 100 * random.betavariate(1, 4), 100 * random.betavariate(3, 3)
        for slot in range(_HOURS * 12):
            share = min(100.0, cpu * random.uniform(0.5, 1.5))
            lines.append(f"c_{number},m_{number // 5},{slot * _SLOT_SECONDS},{share:.1f},{memory:.1f},,,,,,")
    yield "", "\n".join(lines) + "\n"


def _requests(_: Dataset, random: Random) -> Files:
    lines = ["second,task,job,duration_seconds,cpu,memory,priority,anti_affinity,constraints"]
    for task, second in enumerate(sorted(600 + random.randrange(3000) for _ in range(_REQUESTS)), start=1):
        job, priority = random.randrange(_REQUESTS // 5), random.choice((0, 0, 1, 2, 2, 2, 2, 9, 11))
        cpu, memory = random.uniform(0.02, 0.2), random.uniform(0.02, 0.2)
        constraints = random.choice(("", "", "Ql > 2", "wN == 2;Ql < 9", "rs /= a"))
        duration = random.randrange(60, 3000)
        lines.append(
            f"{second},{task},{job},{duration},{cpu:.4f},{memory:.4f},{priority},{task % 2},{constraints}"
        )
    yield "", "\n".join(lines) + "\n"


def _hosts(_: Dataset, random: Random) -> Files:
    lines = ["host,cpu,memory,attributes"]
    for number in range(_REQUEST_HOSTS):
        size = random.choice((0.5, 0.5, 1))
        lines.append(
            f"{1000 + number},{size},{size / 2},Ql={random.randrange(3, 9)};wN=2;rs={random.choice('ab')}"
        )
    yield "", "\n".join(lines) + "\n"


def _submissions(_: Dataset, random: Random) -> Files:
    lines = ["second,task,class,availability,cpu,memory_gb"]
    for second in range(_SUBMISSIONS):
        name, availability = random.choice((("prod", "1"), ("batch", "0.9"), ("free", "0.5")))
        lines.append(f"{second},{second},{name},{availability},0.375,0.375")
    yield "", "\n".join(lines) + "\n"


def _startup(_: Dataset, random: Random) -> Files:
    yield "", "".join(("seconds\n", *(f"{random.randrange(2, 6)}\n" for _ in range(_SUBMISSIONS))))


_MAKERS: Mapping[str, Callable[[Dataset, Random], Files]] = {
    "planetlab": _planetlab,
    "bitbrains": _bitbrains,
    "recording": _recording,
    "google": _google,
    "alibaba": _alibaba,
    "requests": _requests,
    "hosts": _hosts,
    "submissions": _submissions,
    "startup": _startup,
}


def _wave(slot: int) -> float:
    return math.sin(2 * math.pi * slot / _SLOTS_PER_DAY)


def _unit(share: float) -> float:
    return min(1.0, max(0.0, share))


def _percent(share: float) -> int:
    return round(100 * _unit(share))
