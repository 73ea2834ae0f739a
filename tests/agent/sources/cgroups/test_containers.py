import os
from pathlib import Path

import pytest

from agent.sources.cgroups.containers import CgroupWalk, find_containers
from tests.agent.trees import container_id, write


def ids(walk: CgroupWalk) -> list[str]:
    return [found.container.id for found in walk.found]


def test_containers_are_found_at_any_depth_by_id_with_their_paths(tmp_path: Path) -> None:
    paths = {
        container_id(3): f"docker/{container_id(3)}",
        container_id(1): f"system.slice/docker-{container_id(1)}.scope",
        container_id(2): f"a/b/c/{container_id(2)}",
    }
    write(tmp_path, {f"{path}/": "" for path in paths.values()})
    write(tmp_path, {"docker/cgroup.procs": "", "system.slice/ssh.service/cgroup.procs": ""})
    walk = find_containers(str(tmp_path))
    assert [(found.container.id, found.path) for found in walk.found] == sorted(paths.items())
    assert not walk.some_forbidden


def test_a_container_inside_a_container_is_not_listed(tmp_path: Path) -> None:
    write(tmp_path, {f"docker/{container_id(1)}/docker/{container_id(2)}/": ""})
    assert ids(find_containers(str(tmp_path))) == [container_id(1)]


def test_inside_a_container_its_nested_ones_are_found(tmp_path: Path) -> None:
    root = tmp_path / "docker" / container_id(1)
    write(root, {f"docker/{container_id(2)}/": "", "init.scope/": ""})
    assert ids(find_containers(str(root))) == [container_id(2)]


def test_below_a_subtree_only_its_own_are_found_by_their_paths_from_the_root(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            f"node1/{container_id(1)}/": "",
            f"node1/deep/{container_id(2)}/": "",
            f"node2/{container_id(3)}/": "",
            f"{container_id(4)}/": "",
        },
    )
    walk = find_containers(str(tmp_path), "node1")
    paths = [f"node1/{container_id(1)}", f"node1/deep/{container_id(2)}"]
    directories = [tmp_path / path for path in paths]
    assert [found.path for found in walk.found] == paths
    assert [found.directory for found in walk.found] == [str(each) for each in directories]
    assert [found.inode for found in walk.found] == [each.stat().st_ino for each in directories]


def test_a_container_taken_as_the_subtree_is_the_host_of_those_in_it(tmp_path: Path) -> None:
    outer = f"docker/{container_id(1)}"
    write(tmp_path, {f"{outer}/docker/{container_id(2)}/": ""})
    walk = find_containers(str(tmp_path), outer)
    assert [(found.container.id, found.path) for found in walk.found] == [
        (container_id(2), f"{outer}/docker/{container_id(2)}")
    ]


def test_one_container_in_two_places_is_listed_once(tmp_path: Path) -> None:
    write(tmp_path, {f"docker/{container_id(1)}/": "", f"system.slice/docker-{container_id(1)}.scope/": ""})
    assert ids(find_containers(str(tmp_path))) == [container_id(1)]


def test_links_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {f"docker/{container_id(1)}/": ""})
    (tmp_path / "docker" / "again").symlink_to(tmp_path)
    assert ids(find_containers(str(tmp_path))) == [container_id(1)]


def test_missing_hierarchy_has_no_containers(tmp_path: Path) -> None:
    assert find_containers(str(tmp_path / "gone")) == CgroupWalk()


def test_directories_without_permission_are_reported_and_the_rest_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {f"docker/{container_id(1)}/": "", f"secret/{container_id(2)}/": ""})
    scandir = os.scandir

    def guarded(path: str) -> object:
        if path.endswith("secret"):
            raise PermissionError
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    walk = find_containers(str(tmp_path))
    assert ids(walk) == [container_id(1)]
    assert walk.some_forbidden
