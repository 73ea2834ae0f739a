from math import inf

from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from collector.analysis.analysis import (
    LatestAnalysis,
    analyse,
    pack_profile,
    restore_analysis,
)
from collector.analysis.services import RunningServices, ServiceProfile
from collector.analysis.usage import (
    BUCKETS,
    NOT_MEASURED,
    ObservedContainer,
    UsageRing,
    UsageWeights,
)
from collector.config import AnalysisConfig
from tests.collector.builders import add_heartbeat, altered
from tests.collector.report_strategies import patient
from tests.collector.snapshot.builders import assemble
from wire.messages import ContainerUsage
from wire.sketch import Sketch

ALL_ALIKE = UsageWeights(half_life_seconds=inf)
sketches = st.dictionaries(st.integers(-500, 500), st.integers(1, 50), min_size=1, max_size=20)
buckets_of_usage = st.lists(st.tuples(st.integers(100 - BUCKETS + 1, 100), sketches), min_size=1, max_size=5)


def service(*watched: ObservedContainer) -> ServiceProfile:
    running = RunningServices(ALL_ALIKE)
    for each in watched:
        running.put(each.node, [each])
    snapshot = assemble(())
    found = analyse(snapshot, running.pool(snapshot.at), LatestAnalysis().latest, AnalysisConfig())
    return found.services["shop"]


@patient
@given(buckets_of_usage, st.sampled_from([1.0, 5.0, 60.0]))
def test_a_service_of_one_container_has_the_statistics_of_that_container(
    words: list[tuple[int, dict[int, int]]], sample_seconds: float
) -> None:
    rings: dict[str, UsageRing] = {}
    for bucket, bins in words:
        add_heartbeat(rings, bucket, [ContainerUsage("web", cpu=Sketch(bins))], ALL_ALIKE)
    ring = rings["web"]
    one = ObservedContainer(
        "alpha",
        "shop",
        "",
        sample_seconds,
        parts=ring.parts,
        statistics=ring.statistics,
        samples=ring.samples,
    )
    silent = ObservedContainer("beta", "shop", "", 1.0, parts=(), statistics=NOT_MEASURED, samples=0)
    alone, pooled = service(one), service(one, silent)
    assert alone.observed_seconds == pooled.observed_seconds
    assert_allclose(alone.statistics, pooled.statistics, rtol=1e-9, atol=1e-6)
    assert (alone.containers, pooled.containers) == (1, 2)


def test_names_that_one_node_invents_do_not_pile_up() -> None:
    """Services that ended are remembered: those of one node up to a number, the others all."""
    settings, at = altered(AnalysisConfig(), max_ended_services_per_node=3, profile_seconds=0.0), 1000.0
    latest = LatestAnalysis().latest

    def run(running: RunningServices, now: float) -> None:
        nonlocal latest
        snapshot = assemble((), at=now)
        latest = analyse(snapshot, running.pool(now), latest, settings)

    def watched(node: str, name: str) -> ObservedContainer:
        return ObservedContainer(node, name, "", 1.0, parts=(), statistics=NOT_MEASURED, samples=0)

    running = RunningServices(ALL_ALIKE)
    running.put("alpha", [watched("alpha", "shop"), watched("alpha", "only-here")])
    running.put("beta", [watched("beta", "shop")])
    for number in range(10):
        running.put("mallory", [watched("mallory", f"fake{number}"), watched("mallory", "shop")])
        run(running, at + number)
    for node in ("alpha", "beta", "mallory"):
        running.put(node, [])
    run(running, at + 10)
    assert set(latest.services) == {"shop", "only-here", "fake9", "fake8", "fake7"}
    restored = restore_analysis(pack_profile(each) for each in latest.services.values())
    assert {each.name: each.node for each in restored.services.values()} == {
        "shop": "",
        "only-here": "alpha",
        "fake9": "mallory",
        "fake8": "mallory",
        "fake7": "mallory",
    }
