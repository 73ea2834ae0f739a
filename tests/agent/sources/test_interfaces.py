from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.devices import parse_net_dev, read_interfaces
from tests.agent.trees import NET_DEV, Host, make_host, write

NAMES = ("lo", "eth0", "eth1", "docker0", "veth12ab")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(tmp_path)


def test_bytes_in_both_directions_per_link() -> None:
    assert parse_net_dev(NET_DEV.encode()) == {
        "lo": (10_000, 5_000),
        "eth0": (1_200_000, 200_000),
        "eth1": (7_000, 4_000),
        "docker0": (15_000, 8_000),
        "veth12ab": (15_000, 8_000),
    }


def test_a_link_whose_name_has_a_colon_and_no_blank_after_it() -> None:
    assert parse_net_dev(b"eth0:1:100 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n") == {"eth0:1": (150, 50)}


def test_links_with_a_device_lead_outside_and_their_speeds_add_up(host: Host) -> None:
    links = read_interfaces(host.sys, NAMES)
    assert links.names == {"eth0", "eth1"}
    assert links.capacity_bytes_per_second == 11_000 * 1e6 / 8


@pytest.mark.parametrize("speed", ["-1\n", "0\n", "4294967295\n", ""])
def test_one_unknown_speed_makes_the_sum_unknown(host: Host, speed: str) -> None:
    write(host.sys, {"class/net/eth1/speed": speed})
    assert read_interfaces(host.sys, NAMES).capacity_bytes_per_second is None


def test_a_link_that_is_down_adds_no_capacity(host: Host) -> None:
    write(host.sys, {"class/net/eth1/speed": "-1\n", "class/net/eth1/operstate": "down\n"})
    assert read_interfaces(host.sys, NAMES).capacity_bytes_per_second == 1000 * 1e6 / 8


def test_without_any_device_the_names_tell(tmp_path: Path) -> None:
    write(tmp_path, {"class/net/mybridge/bridge/": "", "class/net/eth0/": ""})
    links = read_interfaces(tmp_path, ["lo", "eth0", "mybridge", "docker0", "veth1", "br-1234", "cali99"])
    assert links.names == {"eth0"}
    assert links.capacity_bytes_per_second is None


@given(st.binary())
def test_any_bytes_can_be_parsed(text: bytes) -> None:
    parse_net_dev(text)
    parse_net_dev(b"eth0: " + text)
