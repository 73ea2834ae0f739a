import os
import resource
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.sources.files import OpenFile, OpenFileBudget, default_budget
from tests.lab.guardian import hierarchies


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "figures"
    path.write_text("1\n")
    return path


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a Path would open one more


def test_open_file_is_read_again(path: Path) -> None:
    kept = OpenFile(OpenFileBudget(1), str(path))
    assert kept.read() == b"1\n"
    path.write_text("2222\n")
    assert kept.read() == b"2222\n"
    path.write_text("3\n")
    assert kept.read() == b"3\n"


def test_a_long_text_is_read_whole_every_time(path: Path) -> None:
    path.write_bytes(b"0123456789" * 5000)
    kept = OpenFile(OpenFileBudget(1), str(path))
    assert kept.read() == kept.read() == path.read_bytes()


def test_file_is_closed_with_its_last_reference(path: Path) -> None:
    budget, before = OpenFileBudget(5), open_files()
    kept = OpenFile(budget, str(path))
    assert (budget.left, open_files()) == (5, before)
    kept.read()
    kept.read()
    assert (budget.left, open_files()) == (4, before + 1)
    del kept
    assert (budget.left, open_files()) == (5, before)


def test_beyond_the_budget_files_are_read_but_not_kept(path: Path) -> None:
    budget, before = OpenFileBudget(1), open_files()
    first, second = OpenFile(budget, str(path)), OpenFile(budget, str(path))
    assert first.read() == second.read() == second.read() == b"1\n"
    assert open_files() == before + 1


def test_first_existing_path_is_read(path: Path) -> None:
    assert OpenFile(OpenFileBudget(1), f"{path}.new", str(path)).read() == b"1\n"
    Path(f"{path}.new").write_text("new\n")
    assert OpenFile(OpenFileBudget(1), f"{path}.new", str(path)).read() == b"new\n"


def test_unreadable_file_is_none_and_uses_no_budget(tmp_path: Path) -> None:
    budget, before = OpenFileBudget(1), open_files()
    assert OpenFile(budget, str(tmp_path / "missing")).read() is None
    assert OpenFile(budget, str(tmp_path)).read() is None
    assert OpenFile(budget).read() is None
    assert (budget.left, open_files()) == (1, before)


def test_a_file_that_comes_later_is_found(path: Path) -> None:
    later = path.with_name("later")
    kept = OpenFile(OpenFileBudget(1), str(later))
    assert kept.read() is None
    path.rename(later)
    assert kept.read() == b"1\n"


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """What this process may open, as a test has it."""
    now = {"files": (1024, 524_288)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: now["files"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: now.update(files=limit))
    return now


def test_a_low_limit_is_raised_and_half_of_it_left_for_others(limits: dict[str, tuple[int, int]]) -> None:
    budget = default_budget()
    soft, hard = limits["files"]
    assert 1024 < soft <= hard == 524_288
    assert 1024 < budget.left <= soft // 2


@pytest.mark.parametrize("files", [(1024, 1024), (2000, 1500)])
def test_half_of_a_fixed_limit_is_used(limits: dict[str, tuple[int, int]], files: tuple[int, int]) -> None:
    limits["files"] = files
    assert default_budget().left == files[0] // 2
    assert limits["files"] == files


def test_a_sandbox_that_forbids_it_is_respected(
    limits: dict[str, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(resource, "setrlimit", forbidden)
    assert default_budget().left == limits["files"][0] // 2


def test_number_of_open_files_is_bounded_without_a_limit(limits: dict[str, tuple[int, int]]) -> None:
    limits["files"] = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert 0 < default_budget().left < 10_000


@pytest.fixture
def cgroup() -> Iterator[Path]:
    directory = next(iter(hierarchies())) / f"wattpack-test-{uuid.uuid4().hex[:8]}"
    directory.mkdir()
    yield directory
    if directory.exists():
        directory.rmdir()


@pytest.mark.lab
def test_new_cgroup_of_the_same_name_is_read(cgroup: Path) -> None:
    budget = OpenFileBudget(1)
    kept = OpenFile(budget, str(cgroup / "cgroup.procs"), str(cgroup / "tasks"))
    assert kept.read() == b""
    cgroup.rmdir()
    assert kept.read() is None
    assert budget.left == 1
    cgroup.mkdir()
    assert kept.read() == b""
