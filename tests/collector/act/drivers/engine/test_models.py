from typing import Any

import msgspec
import pytest

from collector.act.drivers.engine.containers import ContainerStats, DockerContainer

ID = "0123456789abcdef"
LABELS = {"wattpack.move": "allowed"}


def container(labels: dict[str, str] | None = None, **changes: Any) -> DockerContainer:
    inspected = {
        "Id": ID,
        "Name": "/web",
        "Image": "sha256:1",
        "State": {"Status": "running"},
        "Config": {"Image": "web:1", "Hostname": ID[:12], "Env": ["A=b"], "Labels": labels or {}},
        "HostConfig": {"NetworkMode": "shop", "NanoCpus": 500_000_000, "ContainerIDFile": "/run/id"},
        "NetworkSettings": {
            "Networks": {"shop": {"Aliases": ["www", ID[:12]], "IPAddress": "10.0.0.7", "NetworkID": "x"}}
        },
    }
    return msgspec.convert({**inspected, **changes}, DockerContainer)


@pytest.mark.parametrize(
    ("state", "well"),
    [
        ({"Status": "running"}, True),
        ({"Status": "running", "Health": {"Status": "healthy"}}, True),
        ({"Status": "running", "Health": {"Status": "starting"}}, None),
        ({"Status": "running", "Health": {"Status": "unhealthy"}}, False),
        ({"Status": "exited"}, False),
        ({"Status": "restarting"}, False),
    ],
)
def test_health_of_a_container(state: dict[str, Any], well: bool | None) -> None:  # noqa: FBT001 - the expected
    assert container(State=state).state.is_healthy is well


@pytest.mark.parametrize(
    ("stats", "used"),
    [
        ({"usage": 100, "stats": {"total_inactive_file": 30, "inactive_file": 10}}, 70),  # cgroup v1
        ({"usage": 100, "stats": {"inactive_file": 10}}, 90),  # cgroup v2
        ({}, 0),
    ],
)
def test_memory_is_counted_without_inactive_page_cache(stats: dict[str, Any], used: int) -> None:
    assert msgspec.convert({"memory_stats": stats}, ContainerStats).working_set_bytes == used
