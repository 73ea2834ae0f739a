"""Where containers are probed: labels and addresses."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.features.probing.prober import is_bridge, parse_addresses, parse_target


@pytest.mark.parametrize(
    ("label", "target"),
    [
        ("8080", (8080, "/")),
        (" 80/health?deep=1 ", (80, "/health?deep=1")),
        ("65535/", (65_535, "/")),
        ("0", None),
        ("65536", None),
        ("health", None),
        ("8080health", None),
        ("8080/a b", None),
        ("8080/a\r\nHost: other", None),
        ("8080/" + "x" * 512, None),
        ("http://other:80/", None),
        ("", None),
    ],
)
def test_a_label_is_a_port_and_a_path(label: str, target: tuple[int, str] | None) -> None:
    assert parse_target(label) == target


@given(st.text(max_size=40))
def test_no_label_leads_to_another_host(label: str) -> None:
    target = parse_target(label)
    if target is not None:
        port, path = target
        assert urlsplit(f"http://10.0.0.1:{port}{path}").hostname == "10.0.0.1"


def inspected(networks: dict[str, Any], mode: str = "bridge") -> bytes:
    described = {"HostConfig": {"NetworkMode": mode}, "NetworkSettings": {"Networks": networks}}
    return json.dumps(described).encode()


def addresses(networks: dict[str, str], mode: str = "bridge") -> list[str]:
    described = {name: {"IPAddress": each, "NetworkID": f"id-{name}"} for name, each in networks.items()}
    return [address for address, _ in parse_addresses(inspected(described, mode))]


def test_addresses_are_those_of_the_container_or_of_its_host() -> None:
    assert addresses({"lan": "10.1.0.2"}) == ["10.1.0.2"]
    assert addresses({"a": "", "b": "10.1.0.3", "c": "10.1.0.4"}) == ["10.1.0.3", "10.1.0.4"]
    assert addresses({"host": ""}, "host") == ["127.0.0.1"]
    assert addresses({"none": ""}, "none") == []
    assert parse_addresses(b"{}") == []


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "169.254.169.254", "fe80::1", "224.0.0.1", "localhost"]
)
def test_no_network_leads_to_the_host_itself_or_to_metadata_of_a_cloud(address: str) -> None:
    assert addresses({"lan": address}) == []


def test_only_bridges_are_networks_of_the_host() -> None:
    assert is_bridge(b'{"Driver": "bridge", "Scope": "swarm"}')
    assert not is_bridge(b'{"Driver": "overlay"}')
    assert not is_bridge(b"{}")
