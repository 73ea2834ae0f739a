"""What is read from redis-benchmark, and what the rates of several clients amount to."""

import pytest

from bench.network.redis import MEMBERS, SERVERS, Throughput, command, parse_rates

OUTPUT = """Cluster has 3 master nodes:
Master 0: 8f0 10.77.3.1:7001
"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET","4628.81","10.6","0.9","1.2","33.1","33.9","40.1"
"GET","5000.00","10.1","0.9","1.2","33.1","33.9","40.1"
"""


def test_rates_are_read_from_csv() -> None:
    assert parse_rates(OUTPUT) == {"SET": 4628.81, "GET": 5000.0}
    assert parse_rates("Could not connect to Redis at 10.77.3.1:7001\n") == {}


def test_the_slowest_client_ends_last() -> None:
    found = Throughput({"client1": 900.0, "client2": 100.0})
    assert found.total == pytest.approx(1000)
    assert found.equal_work == pytest.approx(200)


def test_servers_have_different_ports_because_they_may_share_a_node() -> None:
    ports = [command(server)[command(server).index("--port") + 1] for server in SERVERS]
    assert len(set(ports)) == len(ports) == 3
    assert len(MEMBERS) == 6
