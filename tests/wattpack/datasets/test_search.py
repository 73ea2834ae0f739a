from pathlib import Path

import pytest

from wattpack.datasets.catalogue import DATASETS, dataset_named, describe_missing, find, require, search_path
from wattpack.datasets.traces import locate_in
from wire.errors import UserError

DAY = "planetlab-20110303"


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def test_the_option_comes_first_in_the_search_path(tmp_path: Path) -> None:
    environment = {"WATTPACK_DATA": "/one:/two"}
    assert search_path(tmp_path, environment) == [
        tmp_path,
        *map(Path, ("/one", "/two", "data", "../shared/data")),
    ]
    assert search_path(None, {}) == [Path("data"), Path("../shared/data")]


def test_the_first_folder_that_has_a_set_wins(tmp_path: Path) -> None:
    put(tmp_path / "second" / "traces" / f"{DAY}.txt.gz")
    folders = [tmp_path / "first", tmp_path / "second"]
    found = require(DAY, folders)
    assert found.path == tmp_path / "second" / "traces" / f"{DAY}.txt.gz"
    assert not found.is_published
    (tmp_path / "first" / "planetlab" / "20110303").mkdir(parents=True)
    found = require(DAY, folders)
    assert found.path == tmp_path / "first" / "planetlab" / "20110303"
    assert found.is_published


@pytest.mark.parametrize(
    "place",
    [
        f"traces/{DAY}.txt",
        f"{DAY}.txt.gz",
        "planetlab/20110303/vm",
        "planetlab-workload-traces/20110303/vm",
        "20110303/vm",
    ],
)
def test_a_set_is_found_in_each_form_plain_or_packed_and_in_its_own_folder(
    tmp_path: Path, place: str
) -> None:
    put(tmp_path / place)
    assert find(DAY, [tmp_path]) is not None


def test_an_absent_set_is_one_sentence_with_where_to_get_and_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(UserError) as complaint:
        require(DAY, [tmp_path])
    text = str(complaint.value)
    assert "https://github.com/beloglazov/planetlab-workload-traces" in text
    assert str(tmp_path / "planetlab" / "20110303") in text
    assert "\n" not in text


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda each: each.name)
def test_every_set_is_found_where_the_error_asks_to_put_it(tmp_path: Path, dataset: object) -> None:
    each = dataset_named(getattr(dataset, "name"))  # noqa: B009 - parametrize hands over an object
    place = describe_missing(each, [tmp_path]).partition("put it at ")[2]
    put(Path(place))
    assert find(each.name, [tmp_path]) is not None
    assert each.used_by


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'planetlab-20110412'"):
        find("planetlab-0412", [tmp_path])


def test_only_the_published_month_is_cut_to_the_week(tmp_path: Path) -> None:
    name = "bitbrains-rnd-2013-08-week"
    (tmp_path / "bitbrains" / "rnd" / "2013-8").mkdir(parents=True)
    cut = locate_in([tmp_path])(name)
    assert cut.period is not None
    assert cut.period.end_seconds - cut.period.start_seconds == 7 * 86_400
    put(tmp_path / "traces" / f"{name}.csv.gz")
    assert locate_in([tmp_path])(name).period is None


def test_a_recording_is_no_trace(tmp_path: Path) -> None:
    put(tmp_path / "power" / "xeon-x5650.csv.gz")
    with pytest.raises(UserError, match="xeon-x5650 is not a trace"):
        locate_in([tmp_path])("xeon-x5650")
