from typing import Any

import msgspec
import pytest

from collector.act.drivers.engine.containers import ContainerStats, DockerContainer
from collector.common.orchestrator import Mode
from collector.features.docker.containers import create_request, service_view

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
    ("described", "stays"),
    [
        (container(LABELS), None),
        (container(), "it has one replica and no label wattpack.move=allowed"),
        (container({"wattpack.move": "never"}), "its label wattpack.move is never"),
        (container({**LABELS, "com.docker.swarm.service.id": "x"}), "a Swarm manages it"),
        (
            container(LABELS, Mounts=[{"Type": "volume", "Name": "data"}]),
            "it has data on this host, in data",
        ),
        (
            container(LABELS, Mounts=[{"Type": "bind", "Source": "/srv"}]),
            "it has data on this host, in /srv",
        ),
        (container(LABELS, Mounts=[{"Type": "tmpfs"}]), None),
        (
            container(LABELS, HostConfig={"NetworkMode": "container:other"}),
            "it shares the network of another container",
        ),
        (
            container(LABELS, HostConfig={"AutoRemove": True}),
            "it is removed when it stops, so that the move could not be undone",
        ),
    ],
)
def test_reasons_to_stay(described: DockerContainer, stays: str | None) -> None:
    view = service_view(described)
    assert (view.name, view.mode, view.stays) == ("web", Mode.STANDALONE, stays)


def test_container_is_recreated_with_all_but_the_properties_of_its_host() -> None:
    assert create_request(container(LABELS), {"NanoCpus": 10**9}) == {
        "Image": "web:1",
        "Env": ["A=b"],
        "Labels": LABELS,
        "HostConfig": {"NetworkMode": "shop", "NanoCpus": 10**9},
        "NetworkingConfig": {"EndpointsConfig": {"shop": {"Aliases": ["www"]}}},
    }


def test_a_chosen_host_name_is_kept_and_no_network_is_made_up() -> None:
    named = container(
        Config={"Image": "web:1", "Hostname": "www"}, NetworkSettings={"Networks": {"host": {}}}
    )
    assert create_request(named)["Hostname"] == "www"
    assert "NetworkingConfig" not in create_request(named)


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
