"""Response times of services: each container has its share, whatever its node claims."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config import CollectorConfig
from collector.observe.probes import ResponseSummary, ResponseTimes
from collector.observe.registry import Registry
from tests.collector.builders import HEARTBEAT, START, apply_report, partial_report
from wire.messages import MAX_NAME_LENGTH, ContainerProbe
from wire.sketch import Sketch


def probe(container: str, *seconds: float, failed: int = 0) -> ContainerProbe:
    sketch = Sketch()
    for each in seconds:
        sketch.add(each)
    return ContainerProbe(container=container, seconds=sketch, failed=failed)


def summary_of(
    probes: ResponseTimes, since: float, nodes: Iterable[str], quantile: float
) -> ResponseSummary | None:
    """Of one container on each of these nodes."""
    return probes.summary({f"web-{node}": node for node in nodes}, since, quantile)


def test_the_quantile_is_over_all_nodes_since_a_time() -> None:
    probes = ResponseTimes()
    probes.add("alpha", [probe("web-alpha", *[0.1] * 10), probe("other", 9.0)], 100.0, 100.0)
    probes.add("beta", [probe("web-beta", *[0.5] * 10, failed=3)], 110.0, 110.0)
    nodes = ("alpha", "beta")
    both = summary_of(probes, 90.0, nodes, 0.95)
    assert both is not None
    assert (both.requests, both.failed) == (20, 3)
    assert both.seconds == pytest.approx(0.5, rel=0.02)
    median = summary_of(probes, 90.0, nodes, 0.5)
    assert median is not None
    assert median.seconds == pytest.approx(0.1, rel=0.02)
    late = summary_of(probes, 105.0, nodes, 0.5)
    assert late is not None
    assert late.seconds == pytest.approx(0.5, rel=0.02)
    assert summary_of(probes, 110.0, nodes, 0.5) is None
    assert summary_of(probes, 90.0, ["gamma"], 0.5) is None, "it runs nowhere else"


@given(count=st.integers(1, 500), lie=st.floats(0.001, 50))
def test_a_node_that_lies_changes_no_more_than_its_share(count: int, lie: float) -> None:
    probes = ResponseTimes()
    for number in range(9):
        probes.add(f"node{number}", [probe(f"web-node{number}", *[0.2] * 10)], 100.0, 100.0)
    probes.add("liar", [probe("web-liar", *[lie] * count)], 100.0, 100.0)
    nodes = [*(f"node{number}" for number in range(9)), "liar"]
    for quantile in (0.15, 0.5, 0.85):
        found = summary_of(probes, 0.0, nodes, quantile)
        assert found is not None
        assert found.seconds == pytest.approx(0.2, rel=0.02)


def test_the_memory_of_a_node_is_bounded_and_old_response_times_are_forgotten() -> None:
    probes = ResponseTimes()
    wide = ContainerProbe(container="web-alpha", seconds=Sketch(bins=dict.fromkeys(range(-1000, 1), 1)))
    assert probes.add("alpha", [wide], 0.0, 0.0) == 1
    narrow = ContainerProbe(container="web-beta", seconds=Sketch(bins=dict.fromkeys(range(-999, 0), 1)))
    assert 40 <= sum(probes.add("alpha", [narrow], 0.0, 0.0) for _ in range(150)) <= 60
    assert probes.add("beta", [narrow], 0.0, 0.0) == 0, "another node has its own"
    assert probes.add("alpha", [narrow], 1000.0, 1000.0) == 0
    assert summary_of(probes, -1.0, ["beta"], 0.5) is not None
    probes.drop_old(2000.0)
    assert summary_of(probes, -1.0, ["alpha", "beta"], 0.5) is None


def test_names_without_response_times_take_memory_as_well() -> None:
    probes = ResponseTimes()
    empty = ContainerProbe(container="x" * MAX_NAME_LENGTH, seconds=Sketch())
    assert sum(probes.add("alpha", [empty] * 100, 0.0, 0.0) for _ in range(200)) > 10_000


def test_only_the_containers_of_a_service_count_and_only_on_their_nodes() -> None:
    """Another container names the service in a label, or a node reports a container of another one."""
    probes = ResponseTimes()
    probes.add("alpha", [probe("shop-1", *[0.1] * 10), probe("tenant", *[9.0] * 10)], 100.0, 100.0)
    probes.add("liar", [probe("shop-1", *[9.0] * 90)], 100.0, 100.0)
    found = probes.summary({"shop-1": "alpha"}, 0.0, 0.99)
    assert found is not None
    assert found.requests == 10
    assert found.seconds == pytest.approx(0.1, rel=0.02)


def test_a_response_time_above_every_timeout_is_refused() -> None:
    probes = ResponseTimes()
    absurd = ContainerProbe(container="web", seconds=Sketch(bins={4000: 1_000_000}))
    assert probes.add("liar", [absurd, probe("web-liar", 60.0)], 0.0, 0.0) == 1


def test_zeros_count() -> None:
    probes = ResponseTimes()
    probes.add("alpha", [probe("web-alpha", 0.0, 0.0, 1.0)], 1.0, 1.0)
    found = summary_of(probes, 0.0, ["alpha"], 0.5)
    assert found is not None
    assert found.seconds == 0


def test_reports_from_a_spool_say_nothing_about_the_present() -> None:
    registry = Registry(CollectorConfig())
    # The clock of the node is a day behind, which is not the age of its reports.
    behind = 86_400.0
    first = partial_report("alpha", sequence=1, at=START - behind, heartbeat=HEARTBEAT)
    apply_report(registry, first, START)
    for sequence, (age, seconds) in enumerate([(3600.0, 9.0), (5.0, 0.1)], 2):
        made_at = START + 7200.0 - age
        late = partial_report(
            "alpha", sequence=sequence, at=made_at - behind, probes=(probe("web-alpha", *[seconds] * 10),)
        )
        apply_report(registry, late, START + 7200.0)
    found = summary_of(registry.probes, START + 7190.0, ["alpha"], 0.95)
    assert found is not None
    assert found.requests == 10
    assert found.seconds == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize("drift", [-1.5, 0.5])
def test_a_clock_that_runs_fast_or_slow_makes_no_report_late(drift: float) -> None:
    """That of the collector or of a node may be set right little by little."""
    probes = ResponseTimes()
    for second in range(0, 900, 10):
        probes.add("alpha", [probe("web-alpha", 0.1)], 1000.0 + second, 9000.0 + drift * second)
    found = summary_of(probes, 1850.0, ["alpha"], 0.95)
    assert found is not None
    assert found.requests == 4
