import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermodels.fit.arrays import by_group
from powermodels.fit.recording import parse_recording, read_recording
from wire.errors import UserError

HEAD = (
    "workload,timestamp,watts,cpu_user,cpu_wio,cpu_idle,mem_free,mem_cached,"
    "bytes_read,bytes_in,bytes_out,cycles"
)
LINES = (
    "web,10,150,20,30,50,1000,1000,5e7,1e8,1.5e8,1e9",
    "web,12,160,40,0,60,500,500,0,0,0,1e9",
    "batch,20,200,95,0,5,250,250,0,0,0,1e9",
)
TEXT = "\n".join([HEAD, *LINES]) + "\n"


def test_a_line_becomes_a_sample_of_its_workload() -> None:
    recording = parse_recording("m", TEXT)
    assert {name: len(samples) for name, samples in by_group(recording.samples).items()} == {
        "web": 2,
        "batch": 1,
    }
    first = recording.samples[0]
    assert (first.seconds, first.watts) == (10, 150)
    assert first.load.cpu_ratio == pytest.approx(0.2)  # waiting for disks is not use
    assert first.load.memory_ratio == pytest.approx(0)
    assert first.load.disk_ratio == pytest.approx(0.05)
    assert first.load.network_ratio == pytest.approx(0.1)
    assert recording.samples[2].load.memory_ratio == pytest.approx(0.75)


def test_waiting_can_count_as_use() -> None:
    assert parse_recording("m", TEXT, iowait_is_usage=True).samples[0].load.cpu_ratio == pytest.approx(0.5)


def test_hardware_counters_change_nothing() -> None:
    assert parse_recording("m", TEXT.replace("1e9", "7e7")) == parse_recording("m", TEXT)


def test_packed_and_plain_files_are_the_same(tmp_path: Path) -> None:
    plain, packed = tmp_path / "m.csv", tmp_path / "m.csv.gz"
    plain.write_text(TEXT)
    packed.write_bytes(gzip.compress(TEXT.encode()))
    assert read_recording(plain) == read_recording(packed) == parse_recording("m", TEXT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column workload, timestamp, watts, cpu_idle"),
        (HEAD + "\n", "contains no samples"),
        (TEXT.replace(",150,", ",much,"), "line 2.*much"),
        (TEXT.replace(",160,", ",nan,"), "line 3.*finite"),
        (TEXT.replace(",200,", ",-200,"), "line 4.*negative"),
        (TEXT.replace(",160,", ",,"), "line 3.*no value for watts"),
    ],
)
def test_errors_name_their_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_recording("m", text)


@pytest.mark.parametrize("content", [b"\x00\xff", b"\x1f\x8b\x08\x00broken"])
def test_files_of_another_kind_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.csv.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match="cannot be read as a recording"):
        read_recording(path)


@given(
    micro=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 100)), min_size=1, max_size=8),
    real=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 100)), min_size=1, max_size=8),
    is_packed=st.booleans(),
)
def test_a_folder_as_published_is_the_same_as_one_file(
    micro: list[tuple[int, int]],
    real: list[tuple[int, int]],
    is_packed: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    def lines(samples: list[tuple[int, int]], before: str = "") -> list[str]:
        return [f"{before}{2 * at},{watts},{idle},5e5" for at, (watts, idle) in enumerate(samples)]

    def published(path: Path, samples: list[tuple[int, int]]) -> None:
        text = "\n".join(
            ["timestamp,powerWatts,cpu_idle,mem_free,disk_free", *(f"{x},-" for x in lines(samples))]
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if is_packed else text.encode())

    with TemporaryDirectory() as name:
        suffix = ".csv.gz" if is_packed else ".csv"
        folder = Path(name) / "INTEL Xeon  X"
        published(folder / f"Disk{suffix}", micro)
        published(folder / "validation" / f"web_search{suffix}", real)
        ours = "\n".join(
            [
                "workload,timestamp,watts,cpu_idle,mem_free",
                *lines(micro, "micro_disk,"),
                *lines(real, "web_search,"),
            ]
        )
        assert read_recording(folder) == parse_recording("INTEL Xeon X", ours)


def test_a_published_sample_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "Disk.csv").write_text("timestamp,powerWatts,cpu_idle\n4,110,50\n2,100,60\n4,110,50\n")
    samples = read_recording(tmp_path).samples
    assert [(sample.seconds, sample.watts) for sample in samples] == [(4, 110), (2, 100)]


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give the folder of one machine"):
        read_recording(tmp_path)
    (tmp_path / "CPU.csv").write_text("timestamp,cpu_idle\n1,50\n")
    with pytest.raises(UserError, match=r"CPU\.csv has no column watts"):
        read_recording(tmp_path)


def test_a_file_of_the_kepler_model_database_is_one_workload_at_the_wall() -> None:
    text = (
        "timestamp,cpu_cycles,cgroupfs_cpu_usage_us,package_power,dram_power,platform_power\n"
        "1695115663,2e9,0,45.7,48.6,190\n"
        "1695115666,8e9,0,120.0,50.1,280\n"
    )
    recording = parse_recording("nx12", text)
    assert [(sample.watts, sample.group) for sample in recording.samples] == [
        (190.0, "nx12"),
        (280.0, "nx12"),
    ]
    assert [sample.load.cpu_ratio for sample in recording.samples] == pytest.approx([0.25, 1.0])
    with pytest.raises(UserError, match="line 2"):
        parse_recording("nx12", text.replace(",190", ",much"))
