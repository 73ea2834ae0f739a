"""A trace is the same workload in the form it was published in and in one file of ours."""

import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.readers import bitbrains, planetlab
from replay.readers.samples import Period
from replay.setup.scenario import Machines
from replay.setup.workload import Recorded, Workload
from wire.errors import UserError

STEPS = 288
EPOCH = 1_375_660_800
HEADER = (
    "Timestamp [ms]",
    "CPU cores",
    "CPU capacity provisioned [MHZ]",
    "CPU usage [MHZ]",
    "CPU usage [%]",
    "Memory capacity provisioned [KB]",
    "Memory usage [KB]",
    "Disk read throughput [KB/s]",
    "Disk write throughput [KB/s]",
    "Network received throughput [KB/s]",
    "Network transmitted throughput [KB/s]",
)
OURS = "vm,slot,cpu_mhz,mem_mb,disk_read_kbs,disk_write_kbs,net_rx_kbs,net_tx_kbs"

words = st.text(st.sampled_from("abz019_-."), min_size=1, max_size=6).filter(lambda text: text[0] != ".")
names = st.lists(words, min_size=1, max_size=3).map(" ".join).filter(lambda name: not name.endswith(".gz"))
write = st.sampled_from(
    [
        lambda path, text: path.write_text(text, encoding="utf-8"),
        lambda path, text: path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(text.encode())),
    ]
)
Write = Callable[[Path, str], object]


def assert_same(ours: Workload, published: Workload) -> None:
    assert ours.ids == published.ids
    np.testing.assert_allclose(ours.requested, published.requested, rtol=1e-6)
    assert isinstance(ours.use, Recorded)
    assert isinstance(published.use, Recorded)
    np.testing.assert_allclose(ours.use.values, published.use.values, rtol=1e-5)
    np.testing.assert_array_equal(ours.use.first_step, published.use.first_step)
    np.testing.assert_array_equal(ours.use.steps, published.use.steps)
    assert ours.duration_seconds == published.duration_seconds


@settings(max_examples=30, deadline=None)
@given(
    days=st.dictionaries(
        names, st.lists(st.integers(0, 100), min_size=4, max_size=4), min_size=1, max_size=9
    ),
    write=write,
)
def test_planetlab(days: Mapping[str, Sequence[int]], write: Write) -> None:
    values = {name: [few[step % 4] for step in range(STEPS)] for name, few in days.items()}
    with TemporaryDirectory() as name:
        folder = Path(name) / "day"
        folder.mkdir()
        for machine, each in values.items():
            write(folder / machine, "".join(f"{value}\n" for value in each))
        lines = [f"{machine} {' '.join(map(str, each))}" for machine, each in reversed(values.items())]
        (Path(name) / "day.txt").write_text("\n".join(lines))
        assert_same(planetlab.read(Path(name) / "day.txt", ()), planetlab.read(folder, ()))


amounts = st.integers(0, 5000)
machines = st.dictionaries(
    st.integers(1, 20_000),
    st.tuples(
        st.sampled_from([0, 1, 4]),
        st.dictionaries(st.integers(0, 40), st.tuples(*[amounts] * 6), min_size=1, max_size=12),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    machines=machines,
    write=write,
    factor=st.sampled_from([1, 1000]),
    order=st.permutations(range(len(HEADER))),
    separator=st.sampled_from([";\t", ";", ","]),
    newest_first=st.booleans(),
)
def test_bitbrains(  # noqa: PLR0913 - every way in which files differ
    *,
    machines: Mapping[int, tuple[int, Mapping[int, tuple[int, ...]]]],
    write: Write,
    factor: int,
    order: Sequence[int],
    separator: str,
    newest_first: bool,
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name) / "2013-8"
        folder.mkdir()
        ours, sizes = [OURS], ["vm,cores,cpu_capacity_mhz,mem_capacity_mb,slots"]
        for vm, (cores, slots) in machines.items():
            sizes.append(f"{vm},{cores},{cores * 2600},{cores * 1024},{len(slots)}")
            lines = []
            for slot, (cpu, memory, *rates) in slots.items():
                ours.append(",".join(map(str, (vm, slot, cpu, memory, *rates))))
                stamp = (EPOCH + 300 * slot + 17) * factor
                cells = (stamp, cores, cores * 2600, cpu, 1, cores << 20, memory * 1024, *rates)
                lines.append(separator.join(str(cells[place]) for place in order))
            header = separator.join(HEADER[place] for place in order)
            write(folder / f"{vm}.csv", "\n".join([header, *sorted(lines, reverse=newest_first)]) + "\n")
        (Path(name) / "week.csv").write_text("\n".join(ours))
        (Path(name) / "a-vms.csv").write_text("\n".join(sizes))
        assert_same(bitbrains.read(Path(name) / "week.csv", ()), bitbrains.read(folder, ()))


class TestPlanetlabFolder:
    def test_missing_lines_repeat_the_value_before(self, tmp_path: Path) -> None:
        (tmp_path / "short").write_text("10\n\n30\n")
        (tmp_path / "late").write_text("\n\n50\n" + "60\n" * 300)
        (tmp_path / "empty").write_text("")
        (tmp_path / ".DS_Store").write_bytes(b"\xff\xfe")
        workload = planetlab.read(tmp_path, [Machines(cpu_mips=1000, memory_mb=1)])
        assert workload.ids == ("late", "short")
        late, short = workload.use.at(0.0, np.arange(2), np.zeros(2))[:, 0]
        assert (late, short) == pytest.approx((0.5, 0.1))
        assert workload.use.at(300.0, np.arange(2), np.zeros(2))[1, 0] == pytest.approx(0.1)
        last = workload.use.at(300.0 * 287, np.arange(2), np.zeros(2))[:, 0]
        assert last == pytest.approx([0.6, 0.3])

    def test_mistakes_are_named_with_their_file_and_line(self, tmp_path: Path) -> None:
        (tmp_path / "vm").write_text("10\nmuch\n")
        with pytest.raises(UserError, match=r"vm, line 2: not a number"):
            planetlab.read(tmp_path, ())
        (tmp_path / "vm").write_text("10\n101\n")
        with pytest.raises(UserError, match="outside 0 to 100"):
            planetlab.read(tmp_path, ())

    def test_a_folder_of_days_is_no_day(self, tmp_path: Path) -> None:
        (tmp_path / "20110303").mkdir()
        with pytest.raises(UserError, match="no files of machines"):
            planetlab.read(tmp_path, ())


class TestBitbrainsFolder:
    def test_a_value_that_could_not_be_measured_is_no_sample(self, tmp_path: Path) -> None:
        rows = [
            "0;1;1000;100;1;1024;512;0;0;0;0",
            "300;1;1000;;;1024;512;0;0;0;0",
            "600;1;1000;300;1;1024;512;;;;",
        ]
        (tmp_path / "1.csv").write_text("\n".join(rows))  # without a header
        workload = bitbrains.read(tmp_path, ())
        used = [float(workload.use.at(300.0 * slot, np.arange(1), np.zeros(1))[0, 0]) for slot in range(3)]
        assert used == pytest.approx([0.1, 0.1, 0.3])

    def test_a_period_is_cut_out_by_the_time_stamps(self, tmp_path: Path) -> None:
        rows = [f"{EPOCH + 300 * slot};{1 + (slot > 5)};2000;{slot};0;1024;512;0;0;0;0" for slot in range(12)]
        (tmp_path / "web server.csv").write_text("\n".join([";".join(HEADER), *rows]))
        workload = bitbrains.read(tmp_path, (), Period(EPOCH + 900, EPOCH + 1800))
        assert workload.ids == ("web server",)
        assert workload.duration_seconds == 600
        assert workload.use.at(0.0, np.arange(1), np.zeros(1))[0, 0] == pytest.approx(0.003)
        with pytest.raises(UserError, match="none of the period"):
            bitbrains.read(tmp_path, (), Period(0, 300))

    def test_sizes_come_from_the_file_whose_name_is_nearest(self, tmp_path: Path) -> None:
        head = "vm,cores,cpu_capacity_mhz,mem_capacity_mb,slots\n"
        (tmp_path / "bitbrains-faststorage-vms.csv").write_text(f"{head}1,1,9000,1,1\n")
        (tmp_path / "bitbrains-rnd-vms.csv").write_text(f"{head}1,1,2000,1,1\n")
        trace = tmp_path / "bitbrains-rnd-2013-08-week.csv"
        trace.write_text(f"{OURS}\n1,0,1,1,0,0,0,0\n")
        assert bitbrains.read(trace, ()).requested[0, 0] == 2.0

    def test_a_machine_without_cores_has_no_size(self, tmp_path: Path) -> None:
        (tmp_path / "1.csv").write_text("0;0;0;0;0;0;0;0;0;0;0\n300;0;0;0;0;0;0;0;0;0;0\n")
        assert np.isnan(bitbrains.read(tmp_path, ()).requested).all()
