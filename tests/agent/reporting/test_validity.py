"""Absurd numbers, names and labels on a host: the report arrives, without what cannot be right."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from agent.config import AgentConfig, DockerConfig, HostConfig, StorageConfig
from agent.main import full_report
from agent.reporting.validity import encode_valid, without_labels
from agent.sampling.sampler import Sampler
from agent.sources.docker.models import limit_labels
from tests.agent.trees import container_id, make_host, make_v1, make_v2, v1_container, v2_container, write
from tests.collector.builders import HEARTBEAT, START, container, report
from wire.messages import ContainerUsage, Event, EventKind, encode, parse_batch
from wire.resources import Quantities
from wire.sketch import Sketch

ABSURD = {"2^63": b"9223372036854775808", "2^64": b"18446744073709551616", "400 digits": b"9" * 400}
ABSURD |= {"5000 digits": b"9" * 5000, "negative": b"-" + b"9" * 400, "none": b"nan"}
_NUMBER = re.compile(rb"\b[0-9]+\b")


def v1(root: Path) -> tuple[Path, Path]:
    host = make_host(root)
    make_v1(host)
    v1_container(host, f"docker/{container_id(1)}", pid=100)
    return host.proc, host.sys


def v2(root: Path) -> tuple[Path, Path]:
    host = make_host(root)
    make_v2(host)
    v2_container(host, f"system.slice/docker-{container_id(1)}.scope", pid=100)
    return host.proc, host.sys


_MORE_FILES = {
    "proc/uptime": "5000.25 9000.50\n",
    "proc/100/stat": f"100 (a b) S {' '.join(map(str, range(50)))}\n",
    "sys/class/powercap/intel-rapl:0/name": "package-0\n",
    "sys/class/powercap/intel-rapl:0/energy_uj": "1000000\n",
    "sys/class/powercap/intel-rapl:0/max_energy_range_uj": "262143328850\n",
    "sys/class/hwmon/hwmon0/name": "power_meter\n",
    "sys/class/hwmon/hwmon0/power1_average": "90000000\n",
    "sys/class/hwmon/hwmon0/power1_average_interval": "1000\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2400000\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("make", [v1, v2])
@pytest.mark.parametrize("is_from_start", [False, True])
@pytest.mark.parametrize("absurd", ABSURD.values(), ids=ABSURD)
def test_absurd_numbers_in_any_kernel_file_cost_no_report(
    tmp_path: Path,
    make: Callable[[Path], tuple[Path, Path]],
    absurd: bytes,
    is_from_start: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Every file in turn has absurd numbers: the pass goes on, and the collector accepts the report."""
    make(tmp_path)
    write(tmp_path, _MORE_FILES)
    config = AgentConfig(
        host=HostConfig(root=str(tmp_path)),
        docker=DockerConfig(socket=""),
        storage=StorageConfig(directory=""),
    )
    files = [file for file in sorted(tmp_path.rglob("*")) if file.is_file() and not file.is_symlink()]
    assert len(files) > 20
    for file in files:
        before = file.read_bytes()
        if is_from_start:
            file.write_bytes(_NUMBER.sub(absurd, before))
        sampler = Sampler(config)
        sampler.take_sample()
        file.write_bytes(_NUMBER.sub(absurd, before))
        sample = sampler.take_sample()
        file.write_bytes(before)
        assert sample is not None
        body, _ = encode_valid(full_report("alpha", sample))
        (arrived,) = parse_batch(b"[" + body + b"]")
        assert arrived.state is not None, file


def test_one_invalid_part_is_left_out_and_named() -> None:
    good, bad = container("good"), container("bad", used=Quantities(1.0, 2**64, 1.0, 1.0))
    odd = container("odd", labels={"name": "\udcff"})
    broken = msgspec.structs.replace(
        report(containers=[good, bad, odd]),
        events=(Event(EventKind.DIED, START, exit_code=2**40), Event(EventKind.JOINED, START)),
        gone=("gone", "\udcff"),
        heartbeat=msgspec.structs.replace(
            HEARTBEAT, usage=(ContainerUsage("id", cpu=Sketch({3: 5})), ContainerUsage("\udcff"))
        ),
    )
    body, left_out = encode_valid(broken)
    (arrived,) = parse_batch(b"[" + body + b"]")
    assert arrived.containers == (
        good,
        msgspec.structs.replace(bad, used=Quantities(1.0, None, 1.0, 1.0)),
        msgspec.structs.replace(odd, labels={}),
    )
    assert [(event.kind, event.exit_code) for event in arrived.events] == [
        (EventKind.DIED, None),
        (EventKind.JOINED, None),
    ]
    assert arrived.gone == ("gone",)
    assert arrived.heartbeat is not None
    assert [usage.id for usage in arrived.heartbeat.usage] == ["id"]
    assert arrived.state is not None
    assert left_out == (
        "containers.used.memory_bytes",
        "containers.labels",
        "events.exit_code",
        "heartbeat.usage.id",
    )
    assert [gap.why for gap in arrived.state.gaps if gap.what == "report"] == [
        f"left out: {name}" for name in left_out
    ]


def test_a_valid_report_is_sent_as_it_is() -> None:
    whole = report(containers=[container()])
    assert encode_valid(whole) == (encode(whole), ())


def test_130_containers_with_64_kib_of_labels_each_fit_into_a_report() -> None:
    labels = {f"label-{number}": "x" * 1000 for number in range(64)} | {"wattpack.class": "2"}
    containers = [container(f"c{number}", labels=limit_labels(labels)) for number in range(130)]
    body, left_out = encode_valid(report(containers=containers))
    assert not left_out
    assert len(body) < 1 << 20
    (arrived,) = parse_batch(b"[" + body + b"]")
    assert len(arrived.containers) == 130
    assert all(each.labels["wattpack.class"] == "2" for each in arrived.containers)


def test_a_report_without_labels_keeps_our_own() -> None:
    mixed = report(containers=[container(labels={"a": "b", "wattpack.class": "2"})])
    short = without_labels(encode(mixed))
    assert short is not None
    (arrived,) = parse_batch(b"[" + short + b"]")
    assert arrived.containers[0].labels == {"wattpack.class": "2"}
    assert without_labels(short) is None


def test_the_name_of_an_image_that_is_no_text_is_left_out() -> None:
    broken = msgspec.structs.replace(report(), images=("a:1", "\udcff"))
    body, _ = encode_valid(broken)
    (arrived,) = parse_batch(b"[" + body + b"]")
    assert arrived.images == ("a:1",)
