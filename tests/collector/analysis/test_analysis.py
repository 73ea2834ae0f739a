from math import inf

from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from collector.analysis.analysis import LatestAnalysis, ServiceProfile, analyse
from collector.analysis.running import RunningServices
from collector.analysis.usage import NOT_MEASURED, SLOTS, ObservedContainer, UsageRing, UsageWeights, count
from collector.config import AnalysisConfig
from tests.collector.report_strategies import patient
from tests.collector.snapshot.builders import assemble
from wire.messages import ContainerUsage
from wire.sketch import Sketch

ALL_ALIKE = UsageWeights(half_life_seconds=inf)
sketches = st.dictionaries(st.integers(-500, 500), st.integers(1, 50), min_size=1, max_size=20)
slots_of_usage = st.lists(st.tuples(st.integers(100 - SLOTS + 1, 100), sketches), min_size=1, max_size=5)


def service(*watched: ObservedContainer) -> ServiceProfile:
    running = RunningServices(ALL_ALIKE)
    for each in watched:
        running.put(each.node, [each])
    snapshot = assemble(())
    found = analyse(snapshot, running.pool(snapshot.at), LatestAnalysis().latest, AnalysisConfig())
    return found.services["shop"]


@patient
@given(slots_of_usage, st.sampled_from([1.0, 5.0, 60.0]))
def test_a_service_of_one_container_has_the_statistics_of_that_container(
    words: list[tuple[int, dict[int, int]]], sample_seconds: float
) -> None:
    rings: dict[str, UsageRing] = {}
    for slot, bins in words:
        count(rings, slot, [ContainerUsage("web", cpu=Sketch(bins))], ALL_ALIKE)
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
