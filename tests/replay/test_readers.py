"""Traces become workloads; a mistake in one is named with its line."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from collector.common.arrays import Floats
from replay.readers import alibaba, bitbrains, google2011, planetlab
from replay.setup.scenario import Machines
from replay.setup.workload import Workload
from replay.sources import FORMATS, TraceFile, generate, read_trace
from wire.errors import UserError

MB = 1 << 20
BITBRAINS = "vm,slot,cpu_mhz,mem_mb,disk_read_kbs,disk_write_kbs,net_rx_kbs,net_tx_kbs\n"
SIZES = "vm,cores,cpu_capacity_mhz,mem_capacity_mb,slots\n"


def at(workload: Workload, seconds: float, *ids: str) -> Floats:
    rows = np.array([workload.ids.index(each) for each in ids or workload.ids])
    return workload.use.at(seconds, rows, np.zeros(rows.size))


def day(value: int) -> str:
    return " ".join(str(value) for _ in range(288))


def written(folder: Path, text: str, name: str = "trace") -> Path:
    path = folder / name
    path.write_text(text)
    return path


class TestPlanetlab:
    def test_machines_by_name_in_blocks_of_equal_size(self, tmp_path: Path) -> None:
        lines = [f"machine {letter} {day(10 * number)}" for number, letter in enumerate("dcba", start=1)]
        workload = planetlab.read(written(tmp_path, "\n".join(lines)), ())
        assert workload.ids == ("machine a", "machine b", "machine c", "machine d")
        assert workload.requested[:, 0].tolist() == [2.5, 2.0, 1.0, 0.5]
        assert (workload.requested[:, 1] / MB).tolist() == [870, 1740, 1740, 613]
        assert at(workload, 0.0)[:, 0] == pytest.approx([2.5 * 0.4, 2.0 * 0.3, 1.0 * 0.2, 0.5 * 0.1])

    def test_blocks_are_rounded_up_as_in_cloudsim(self, tmp_path: Path) -> None:
        lines = [f"m{number} {day(0)}" for number in range(5)]
        sizes = [Machines(cpu_mips=mips, memory_mb=1) for mips in (2000, 1000)]
        workload = planetlab.read(written(tmp_path, "\n".join(lines)), sizes)
        assert workload.requested[:, 0].tolist() == [2, 2, 2, 1, 1]

    def test_use_moves_in_a_straight_line(self, tmp_path: Path) -> None:
        values = " ".join(str(min(number, 100)) for number in range(288))
        workload = planetlab.read(written(tmp_path, f"m {values}"), [Machines(cpu_mips=1000, memory_mb=1)])
        assert at(workload, 300 * 7 + 150)[0, 0] == pytest.approx(0.075)
        assert workload.duration_seconds == 287 * 300

    def test_packed_files_are_known_by_their_content(self, tmp_path: Path) -> None:
        path = tmp_path / "whatever"
        path.write_bytes(gzip.compress(f"m {day(50)}\n".encode()))
        assert planetlab.read(path, ()).ids == ("m",)

    @pytest.mark.parametrize(
        ("line", "why"),
        [
            ("m 1 2 3", "line 2"),
            (f"m {day(7)[:-1]}x", "line 2: not all"),
            (f"m {day(101)}", "line 2: a percentage"),
            (f"first {day(1)}", "line 2: machine 'first' occurs twice"),
        ],
    )
    def test_mistakes_are_named_with_their_line(self, tmp_path: Path, line: str, why: str) -> None:
        with pytest.raises(UserError, match=why):
            planetlab.read(written(tmp_path, f"first {day(1)}\n{line}\n"), ())

    def test_empty_and_absent_files_are_complained_of(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="no machine"):
            planetlab.read(written(tmp_path, "\n"), ())
        with pytest.raises(UserError, match="cannot read"):
            planetlab.read(tmp_path / "absent", ())


class TestBitbrains:
    def test_a_truncated_file_is_a_user_error(self, tmp_path: Path) -> None:
        lines = "".join(f"1,{slot},{slot % 97},100,0,0,0,0\n" for slot in range(5000))
        path = tmp_path / "trace.csv.gz"
        path.write_bytes(gzip.compress((BITBRAINS + lines).encode())[:-2000])
        with pytest.raises(UserError, match="check its name, and that it is complete"):
            bitbrains.read(path, ())

    def test_four_resources_and_sizes_from_the_file_beside(self, tmp_path: Path) -> None:
        written(tmp_path, SIZES + "7,2,5200,4096,2\n", "some-vms.csv")
        workload = bitbrains.read(
            written(tmp_path, BITBRAINS + "7,0,500,100,1,2,3,4\n7,1,900,100,1,2,3,4\n"), ()
        )
        assert workload.ids == ("vm-0007",)
        assert workload.requested[0, :2].tolist() == [5.2, 4096 * MB]
        assert at(workload, 0.0)[0] == pytest.approx([0.5, 100 * MB, 3 * 1024, 7 * 1024])
        assert at(workload, 150.0)[0, 0] == pytest.approx(0.7)

    def test_missing_slot_repeats_the_one_before(self, tmp_path: Path) -> None:
        text = BITBRAINS + "1,0,100,1,0,0,0,0\n1,3,400,1,0,0,0,0\n"
        workload = bitbrains.read(written(tmp_path, text), [Machines(cpu_mips=1000, memory_mb=64)])
        assert [float(at(workload, 300.0 * step)[0, 0]) for step in range(4)] == pytest.approx(
            [0.1, 0.1, 0.1, 0.4]
        )
        assert workload.requested[0, 0] == 1.0

    def test_mistakes_are_named_with_their_line(self, tmp_path: Path) -> None:
        sizes = [Machines(cpu_mips=1000, memory_mb=64)]
        with pytest.raises(UserError, match="line 3"):
            bitbrains.read(written(tmp_path, BITBRAINS + "1,0,1,1,0,0,0,0\n1,1,x,1,0,0,0,0\n"), sizes)
        with pytest.raises(UserError, match="line 2: has 3 fields"):
            bitbrains.read(written(tmp_path, BITBRAINS + "1,0,1\n"), sizes)
        with pytest.raises(UserError, match="line 3: a field is missing or negative"):
            bitbrains.read(written(tmp_path, BITBRAINS + "1,0,1,1,0,0,0,0\n1,1,-4,1,0,0,0,0\n"), sizes)
        with pytest.raises(UserError, match="are missing: expected vm, slot"):
            bitbrains.read(written(tmp_path, "a,b\n1,2\n"), sizes)

    def test_machines_without_a_size_anywhere_are_complained_of(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"\[\[machines\]\]"):
            bitbrains.read(written(tmp_path, BITBRAINS + "1,0,1,1,0,0,0,0\n"), ())


def google_line(start: int, end: int, task: int, *used: float | str) -> str:
    cells = [start, end, 11, task, 42, *used, "", "", "", "", "", "", "", "", "", 1, 0, ""]
    return ",".join(str(cell) for cell in cells)


class TestGoogle:
    def test_tasks_are_there_from_their_first_line_to_their_last(self, tmp_path: Path) -> None:
        lines = [
            google_line(600_000_000, 900_000_000, 0, 0.5, 0.25, 0.5),
            google_line(900_000_000, 1_200_000_000, 0, 0.25, 0.25, 0.5),
            google_line(900_000_000, 1_200_000_000, 1, 0.1, "", ""),
        ]
        whole = [Machines(cpu_mips=10_000, memory_mb=1000)]
        workload = google2011.read(written(tmp_path, "\n".join(lines)), whole)
        assert workload.services[0] == workload.services[1]
        assert workload.arrival_seconds.tolist() == [0.0, 300.0]
        assert workload.lifetime_seconds.tolist() == [600.0, 300.0]
        assert at(workload, 0.0)[0, :2] == pytest.approx([5.0, 250 * MB])
        assert workload.requested[0, 1] == 500 * MB
        assert np.isnan(workload.requested[1, 1])

    def test_mistakes_are_named_with_their_line(self, tmp_path: Path) -> None:
        good = google_line(0, 300_000_000, 0, 0.5, 0.5, 0.5)
        with pytest.raises(UserError, match="line 2: it ends before it begins"):
            google2011.read(written(tmp_path, f"{good}\n{google_line(5, 4, 0, 1, 1, 1)}"), ())
        with pytest.raises(UserError, match="line 2"):
            google2011.read(written(tmp_path, f"{good}\n1,2,3"), ())


class TestAlibaba:
    def test_percentages_are_of_what_the_meta_file_gives(self, tmp_path: Path) -> None:
        written(tmp_path, "c_1,m_1,0,app_9,started,800,800,3.0\n", "container_meta.csv")
        usage = (
            "c_1,m_1,0,50,20,,,,,,\nc_1,m_1,10,70,20,,,,,,\nc_2,m_1,300,10,10,,,,,,\nc_2,m_1,310,-1,5,,,,,,\n"
        )
        whole = [Machines(cpu_mips=96_000, memory_mb=1000)]
        workload = alibaba.read(written(tmp_path, usage), whole)
        assert workload.services == ("app_9", "c_2")
        assert workload.requested[:, 0].tolist() == [8.0, 4.0]
        assert at(workload, 0.0, "c_1")[0, :2] == pytest.approx([8 * 0.6, 0.03 * 1000 * MB * 0.2])
        assert workload.arrival_seconds.tolist() == [0.0, 300.0]

    def test_mistakes_are_named_with_their_line(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="line 2"):
            alibaba.read(written(tmp_path, "c_1,m_1,0,50,20\nc_1,m_1,zero,1,1\n"), ())


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_what_is_no_text_is_complained_of(tmp_path: Path, name: str) -> None:
    path = tmp_path / "noise"
    path.write_bytes(bytes(range(128, 256)) * 20)
    with pytest.raises(UserError):
        read_trace(TraceFile(path, name), ())


def test_unknown_names_are_answered_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="planetlab"):
        read_trace(TraceFile(tmp_path, "borg"), ())
    with pytest.raises(UserError, match="cloud-hour"):
        generate("nothing", {}, 0)
