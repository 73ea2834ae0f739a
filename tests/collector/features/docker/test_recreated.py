import pytest

from collector.act.drivers.engine.containers import DockerContainer
from collector.common.orchestrator import Mode
from collector.features.docker.containers import create_request, service_view
from tests.collector.act.drivers.engine.test_models import LABELS, container


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
    assert create_request(container(LABELS), {"NanoCpus": 10**9}, "key") == {
        "Image": "web:1",
        "Env": ["A=b"],
        "Labels": {**LABELS, "wattpack.copy": "key"},
        "HostConfig": {"NetworkMode": "shop", "NanoCpus": 10**9},
        "NetworkingConfig": {"EndpointsConfig": {"shop": {"Aliases": ["www"]}}},
    }


def test_a_chosen_host_name_is_kept_and_no_network_is_made_up() -> None:
    named = container(
        Config={"Image": "web:1", "Hostname": "www"}, NetworkSettings={"Networks": {"host": {}}}
    )
    assert create_request(named, {}, "key")["Hostname"] == "www"
    assert "NetworkingConfig" not in create_request(named, {}, "key")
