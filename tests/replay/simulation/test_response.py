"""Response times of applications: small clusters that can be calculated by hand."""

from contextlib import nullcontext

import pytest

from replay.setup.scenario import parse_scenario
from replay.setup.workload import Workload
from replay.simulation.compare import compare
from replay.simulation.response import ApplicationResult
from replay.simulation.results import PolicyResult
from tests.replay.setups import workload
from wire.errors import UserError

HOSTS = """
[[hosts]]
name = "a"
count = 2
region = "near"
cpu_cores = 1
memory_mb = 1024
watts = [100, 200]
[[hosts]]
name = "b"
region = "far"
cpu_cores = 1
memory_mb = 1024
watts = [100, 200]
[network.round_trip_ms]
far = { near = 100 }
[policies.blind]
policy = "first-fit"
simulation = { mesh = false }
"""
APPLICATION = """
[[applications]]
name = "shop"
service_ms = 10
response_max_ms = 100
"""
OTHER_HOST = '[[hosts]]\nname = "c"\ncpu_cores = 1\nmemory_mb = 64\nwatts = [1, 2]\n'
ONE_EACH = workload((1.0, 64), (1.0, 64), (1.0, 64))
"""Containers a, b and c: first fit puts each on a host of its own, in the order of their names."""


def replay(text: str, containers: Workload, policy: str = "blind", hosts: str = HOSTS) -> PolicyResult:
    scenario = parse_scenario(text + hosts, "s.toml")
    found = compare([policy], scenario, containers, None, lambda *_: nullcontext(lambda _: None))
    return found.policies[policy]


def measured(text: str, containers: Workload = ONE_EACH, policy: str = "blind") -> ApplicationResult:
    found = replay(text, containers, policy).applications
    assert isinstance(found, dict)
    return found["shop"]


def test_requests_go_from_every_caller_to_every_server() -> None:
    found = measured(APPLICATION + 'callers = ["a"]\n')
    # On the same host, in the same region, in the other region.
    assert found.response_mean_ms == pytest.approx((10 + 11 + 110) / 3)
    assert found.response_p95_ms == pytest.approx(110, rel=0.01)
    assert found.above_ratio == pytest.approx(1 / 3)
    assert found.hosts_mean == pytest.approx(3)
    assert found.containers_mean == pytest.approx(3)
    assert found.operations_per_second is None
    assert found.apart_time_ratio is None


def test_round_trips_of_a_request_add_up() -> None:
    found = measured(APPLICATION + 'callers = ["a"]\nservers = ["c"]\nround_trips = 3\n')
    assert found.response_mean_ms == pytest.approx(310)


def test_service_takes_longer_with_less_cpu_than_it_demands() -> None:
    both = workload((1.0, 64), (1.0, 64), requested=[(0.5, 64), (0.5, 64)])
    found = measured(APPLICATION + 'callers = ["a"]\nservers = ["b"]\n', both)
    assert found.hosts_mean == pytest.approx(1)
    assert found.response_mean_ms == pytest.approx(20)


def test_connections_that_always_wait_give_the_operations_per_second() -> None:
    found = measured(APPLICATION + 'callers = ["a"]\nservers = ["c"]\nconnections = 5\n')
    assert found.operations_per_second == pytest.approx(5 / 0.110)
    # A server on the same host answers one request in 10 ms, however many connections wait.
    found = measured(APPLICATION + 'callers = ["a"]\nservers = ["a"]\nconnections = 5\n')
    assert found.operations_per_second == pytest.approx(1 / 0.010)
    # Connections are spread over the servers; a near one answers more of them.
    found = measured(APPLICATION + 'callers = ["a"]\nservers = ["b", "c"]\nconnections = 2\n')
    assert found.operations_per_second == pytest.approx(1 / 0.011 + 1 / 0.110)


def test_policies_keep_the_bound_only_if_the_network_is_measured() -> None:
    bounded = APPLICATION + "delay_max_ms = 50\n"
    assert measured(bounded).apart_time_ratio == pytest.approx(1)
    known = replay(bounded, ONE_EACH, "first-fit")
    assert isinstance(known.applications, dict)
    # The third container fits only in the other region.
    assert known.refused == 1
    assert known.applications["shop"].apart_time_ratio == 0
    assert known.applications["shop"].above_ratio == 0


SWAPPED = HOSTS.replace('name = "a"\ncount = 2', 'name = "a"').replace('name = "b"', 'name = "b"\ncount = 2')
"""One host in the region that comes first by name, two in the other."""


def test_containers_that_arrive_at_once_are_placed_as_a_whole() -> None:
    bounded = APPLICATION + "delay_max_ms = 50\n"
    two, three = workload((1.0, 64), (1.0, 64)), ONE_EACH
    in_turn = replay(bounded, two, "first-fit", SWAPPED)
    assert (in_turn.placed, in_turn.refused) == (1, 1)
    for policy in ("net-aware", "net-optimal"):
        whole = replay(bounded, two, policy, SWAPPED)
        assert whole.placed == 2
        assert [whole.nodes[name].containers for name in ("a", "b-1", "b-2")] == [0, 1, 1]
        # There is no room for three: then none is placed.
        assert replay(bounded, three, policy, SWAPPED).refused == 3


def test_time_before_an_application_starts_does_not_count() -> None:
    late = workload((1.0, 64), (1.0, 64), seconds=600, arrivals=(0, 300))
    found = measured(APPLICATION + 'services = ["b"]\n', late)
    assert found.containers_mean == pytest.approx(1)
    never = workload((1.0, 64), seconds=600, arrivals=(700,))
    found = measured(APPLICATION, never)
    assert found.response_mean_ms is None
    assert found.response_p95_ms is None


def test_results_have_applications_only_if_the_scenario_has() -> None:
    assert not isinstance(replay("", ONE_EACH).applications, dict)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (APPLICATION + 'services = ["x*"]\n', "services of application shop match no service"),
        (APPLICATION + 'callers = ["x"]\n', "callers of application shop match no service"),
        (APPLICATION + APPLICATION.replace("shop", "other"), "two applications: shop and other"),
        (OTHER_HOST + 'region = "moon"\n', "no time between the regions far and moon"),
        (OTHER_HOST, "'c' has no region"),
    ],
)
def test_mistakes_are_named(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        replay(text, ONE_EACH)
