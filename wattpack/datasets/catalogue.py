"""The table of data sets, and where each is on this machine: the first match of a search path."""

import argparse
import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from wattpack.config.arguments import add
from wire.errors import UserError

RECORDING = "recording"
"""The format of recordings: watts and load of a metered machine."""
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Source:
    """The publisher of a set, and its terms."""

    about: str
    url: str
    licence: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """One set."""

    name: str
    source: Source
    format: str
    """A format of traces, `recording` (watts of a metered machine), `hosts`, `startup` (start-up times),
    `lifecycle` (events of containers), or `table`."""
    size: str
    """Size of the published files."""
    published: tuple[str, ...]
    """Names of the file or folder as published, below a data folder; the first is where to put it."""
    packed: str | None = None
    """Its name as one file in our own format."""
    used_by: tuple[str, ...] = ()
    """Commands that read it."""
    period_seconds: tuple[float, float] | None = None
    """If the set is a part of the published files: its start and end, by their own clock."""


PLANETLAB = Source(
    "PlanetLab: CPU use of 900 to 1,500 virtual machines, every 5 minutes of a day (CoMon, A. Beloglazov)",
    "https://github.com/beloglazov/planetlab-workload-traces",
    "not stated",
)
CLOUDSIM = Source(
    "CloudSim: energy and moves on five PlanetLab days",
    "CloudSim 3.0.3, its power examples (https://github.com/Cloudslab/cloudsim)",
    "LGPL-3.0 (the program)",
)
BITBRAINS = Source(
    "Bitbrains: CPU, memory, disk and network of the virtual machines of a data centre, every 5 minutes "
    "(Shen et al., CCGrid 2015)",
    "http://gwa.ewi.tudelft.nl/datasets/gwa-t-12-bitbrains",
    "not stated; cite the paper",
)
METERED = Source(
    "Metered servers: wall power and system counters, CloudSuite and single-purpose loads (M. Canuto et al.)",
    "https://github.com/maurocanuto/power-modelling",
    "Apache-2.0",
)
GOOGLE = Source(
    "Google: tasks of a cluster in May 2011, a line per task and 5 minutes",
    "https://github.com/google/cluster-data (ClusterData2011_2)",
    "CC-BY-4.0",
)
ALIBABA = Source(
    "Alibaba: containers of a cluster in 2018",
    "https://github.com/alibaba/clusterdata (cluster-trace-v2018)",
    "terms in the repository",
)
QOS = Source(
    "QoS-driven scheduling: what was submitted to a Kubernetes cluster, what happened to it, start-up times, "
    "and the first hour of a sample of Google's trace of 2011 (G. Farias et al.)",
    "https://github.com/giovannifs/qos-driven-scheduling-experiments and "
    "https://github.com/cloudish-ufcg/qos-driven-scheduling-experiments (as CSV, see docs/replay.md)",
    "not stated; cite the authors",
)

_DAYS_IN_BENCHMARKS = ("20110303", "20110309", "20110325", "20110411", "20110420")
_OTHER_DAYS = ("20110306", "20110322", "20110403", "20110409", "20110412")
_TRACE = "wattpack replay --trace NAME --hosts FILE.toml"
_WEEK = datetime(2013, 8, 5, tzinfo=UTC).timestamp()
_SERVERS = {
    "opteron-6140": ("AMD Opteron 6140", "over 12 MB"),
    "opteron-6234": ("AMD Opteron 6234", "over 14 MB"),
    "xeon-e5-2640": ("INTEL Xeon  E5-2640 RenewIT", "over 7 MB"),
    "xeon-e5-2650": ("INTEL Xeon E5-2650", "over 7 MB"),
    "xeon-x5650": ("INTEL Xeon X5650", "over 13 MB"),
}
_LEVELS = ("lower", "medium", "higher")
_SERVERS_IN_BENCHMARKS = ("opteron-6140", "xeon-e5-2640", "xeon-x5650")


def _planetlab(day: str) -> Dataset:
    benchmarks = (
        (f"wattpack replay scenarios/planetlab-{day}.toml", "./dev bench replay", "./dev bench scenarios")
        if day in _DAYS_IN_BENCHMARKS
        else (_TRACE,)
    )
    name, places = f"planetlab-{day}", (f"planetlab/{day}", f"planetlab-workload-traces/{day}")
    return Dataset(name, PLANETLAB, "planetlab", "1 MB", places, f"traces/{name}.txt", benchmarks)


def _bitbrains(
    name: str,
    folder: str,
    size: str,
    used_by: tuple[str, ...] = (_TRACE,),
    period: tuple[float, float] | None = None,
) -> Dataset:
    places = (f"bitbrains/{folder}", f"GWA-T-12/{folder}")
    packed = f"traces/bitbrains-{name}.csv"
    return Dataset(f"bitbrains-{name}", BITBRAINS, "bitbrains", size, places, packed, used_by, period)


def _server(name: str, folder: str, size: str) -> Dataset:
    spaced = " ".join(folder.split())
    names = dict.fromkeys(f"power-modelling/dataSets/{each}" for each in (folder, spaced))
    used_by = ("wattpack power evaluate", *(("./dev bench power",) if name in _SERVERS_IN_BENCHMARKS else ()))
    places = (*names, f"dataSets/{folder}")
    return Dataset(name, METERED, RECORDING, size, places, f"power/{name}.csv", used_by)


def _qos(name: str, format_name: str, size: str, *scenarios: str) -> Dataset:
    replays = tuple(f"wattpack replay scenarios/{each}.toml" for each in scenarios)
    return Dataset(name, QOS, format_name, size, (f"qos/{name}.csv",), used_by=(*replays, "./dev bench slo"))


def _all_qos() -> Iterator[Dataset]:
    hours = [f"qos-google-{level}" for level in _LEVELS]
    tests = ["qos-validation-1", "qos-validation-2"]
    for scenario, level in zip(hours, _LEVELS, strict=True):
        yield _qos(f"google-1h-{level}", "requests", "130 kB packed", scenario)
    yield _qos("google-620-hosts", "hosts", "8 kB packed", *hours)
    for number, scenario in enumerate(tests, start=1):
        yield _qos(f"validation{number}-workload", "submissions", "7 kB", scenario)
    for place in ("same", "other"):
        yield _qos(f"startup-seconds-{place}-host", "startup", "10 kB", *tests, *hours)
    for policy in ("qos", "priority"):
        yield _qos(f"k8s-validation1-workload1-{policy}", "lifecycle", "180 kB packed")


def _all() -> Iterator[Dataset]:
    yield from map(_planetlab, sorted((*_DAYS_IN_BENCHMARKS, *_OTHER_DAYS)))
    name = "planetlab-cloudsim-reference"
    yield Dataset(name, CLOUDSIM, "table", "2 kB", (), f"traces/{name}.csv", ("./dev bench replay",))
    benchmarks = (f"./dev bench {each}" for each in ("replay", "scenarios", "agent-push", "understanding"))
    used_by = ("wattpack replay scenarios/bitbrains-week.toml", *benchmarks)
    yield _bitbrains("rnd-2013-08-week", "rnd/2013-8", "510 MB", used_by, (_WEEK, _WEEK + 7 * _DAY_SECONDS))
    yield _bitbrains("rnd-2013-07", "rnd/2013-7", "460 MB")
    yield _bitbrains("rnd-2013-08", "rnd/2013-8", "510 MB")
    yield _bitbrains("rnd-2013-09", "rnd/2013-9", "500 MB")
    yield _bitbrains("faststorage-2013-08", "fastStorage/2013-8", "about 1.1 GB")
    for name, (folder, size) in _SERVERS.items():
        yield _server(name, folder, size)
    places = tuple(f"{each}/part-00000-of-00500.csv" for each in ("google", "clusterdata-2011-2/task_usage"))
    size = "about 80 MB packed"
    yield Dataset("google-2011-task-usage", GOOGLE, "google", size, places, used_by=(_TRACE,))
    places, size = ("alibaba/container_usage.csv",), "28 GB packed"
    yield Dataset("alibaba-2018-container-usage", ALIBABA, "alibaba", size, places, used_by=(_TRACE,))
    yield from _all_qos()


DATASETS: Mapping[str, Dataset] = MappingProxyType({each.name: each for each in _all()})
"""Every set, by its name."""


# --- Search ---------------------------------------------------------------------------------

VARIABLE = "WATTPACK_DATA"
_DEFAULTS = (Path("data"), Path("../shared/data"))
_PACKED = ".gz"


@dataclass(frozen=True, slots=True)
class Found:
    """An installed set."""

    dataset: Dataset
    path: Path
    is_published: bool
    """Whether it has the published format instead of our own."""


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """`--data DIR`."""
    searched = f"a folder with data sets; searched after it: {VARIABLE}, ./data, ../shared/data"
    add(parser, "--data DIR", searched, Path)


def search_path(given: Path | None = None, environment: Mapping[str, str] | None = None) -> list[Path]:
    """The folders to search, in order: `--data`, `WATTPACK_DATA`, `./data`, `../shared/data`."""
    variable = (os.environ if environment is None else environment).get(VARIABLE)
    named = [given] if given is not None else []
    if variable:
        named += [Path(each) for each in variable.split(os.pathsep) if each]
    return [*named, *_DEFAULTS]


def find(name: str, folders: Sequence[Path]) -> Found | None:
    """The first match of a set."""
    dataset = dataset_named(name)
    for folder in folders:
        for path, is_published in _candidates(dataset, folder):
            if path.exists():
                return Found(dataset, path, is_published)
    return None


def require(name: str, folders: Sequence[Path]) -> Found:
    """The first match of a set. Raise a `UserError` that says what to download if there is none."""
    found = find(name, folders)
    if found is None:
        raise UserError(describe_missing(dataset_named(name), folders))
    return found


def describe_missing(dataset: Dataset, folders: Sequence[Path]) -> str:
    """The error for a missing set: its source, and where to put it."""
    target = folders[0] if folders else _DEFAULTS[0]
    name = dataset.published[0] if dataset.published else dataset.packed
    return (
        f"the data set {dataset.name} is not installed: "
        f"download it from {dataset.source.url} and put it at {target / (name or dataset.name)}"
    )


def dataset_named(name: str) -> Dataset:
    """A set of the table; the error for an unknown name suggests the nearest."""
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "'wattpack data' lists them all"
        raise UserError(f"there is no data set {name!r}: {hint}")
    return DATASETS[name]


def _candidates(dataset: Dataset, folder: Path) -> Iterator[tuple[Path, bool]]:
    """Every possible path of the set in a folder, which may itself be the first part of its name."""
    names = [] if dataset.packed is None else [(dataset.packed, False)]
    for name, is_published in (*names, *((each, True) for each in dataset.published)):
        for variant in (name, name.partition("/")[2]):
            if variant:
                yield folder / variant, is_published
                yield folder / f"{variant}{_PACKED}", is_published
