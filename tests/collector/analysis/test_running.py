from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from collector.analysis.services import RunningServices, ServiceProfile
from collector.analysis.usage import (
    BUCKET_SECONDS,
    NOT_MEASURED,
    ObservedContainer,
    UsageRing,
    UsageWeights,
)
from tests.collector.builders import add_heartbeat
from tests.collector.report_strategies import patient
from wire.messages import ContainerUsage
from wire.sketch import Sketch

NEWEST = 100
NOW = NEWEST * BUCKET_SECONDS
WEIGHTS = UsageWeights()


def watched(
    node: str, service: str, bins: Mapping[int, int], *, image: str = "", bucket: int = NEWEST
) -> ObservedContainer:
    rings: dict[str, UsageRing] = {}
    if bins:
        add_heartbeat(rings, bucket, [ContainerUsage("c", cpu=Sketch(dict(bins)))], WEIGHTS)
    ring = rings.get("c", UsageRing())
    return ObservedContainer(node, service, image, 5.0, ring.parts, ring.statistics, ring.samples)


def same(found: Mapping[str, ServiceProfile], expected: Mapping[str, ServiceProfile]) -> None:
    assert found.keys() == expected.keys()
    for name, one in found.items():
        other = expected[name]
        assert (one.image, one.containers, one.nodes) == (other.image, other.containers, other.nodes)
        assert one.observed_seconds == pytest.approx(other.observed_seconds)
        assert_allclose(one.statistics, other.statistics, rtol=1e-9)


containers = st.lists(
    st.tuples(
        st.sampled_from(["web", "db", "queue"]),
        st.dictionaries(st.integers(-50, 50), st.integers(1, 50), max_size=5),
        st.integers(NEWEST - 2, NEWEST),
    ),
    max_size=4,
)
words = st.lists(st.tuples(st.sampled_from(["alpha", "beta", "gamma"]), containers), max_size=8)


@patient
@given(st.lists(words, max_size=4))
def test_incremental_passes_give_the_result_of_a_full_pass(
    passes: list[list[tuple[str, list[tuple[str, dict[int, int], int]]]]],
) -> None:
    kept = RunningServices(WEIGHTS)
    there: dict[str, list[ObservedContainer]] = {}
    for reports in passes:
        for node, containers_of in reports:
            there[node] = [
                watched(node, service, bins, bucket=bucket) for service, bins, bucket in containers_of
            ]
            kept.put(node, there[node])
        afresh = RunningServices(WEIGHTS)
        for node, on_it in there.items():
            afresh.put(node, on_it)
        same(kept.pool(NOW), afresh.pool(NOW))


def test_only_services_with_changes_are_pooled_again() -> None:
    running = RunningServices(WEIGHTS)
    alpha = [watched("alpha", "web", {1: 5}), watched("alpha", "db", {2: 5})]
    running.put("alpha", alpha)
    running.put("beta", [watched("beta", "web", {1: 7}), watched("beta", "db", {2: 7})])
    first = dict(running.pool(NOW))
    # The same again, but for one container that has more to tell.
    running.put("alpha", [watched("alpha", "web", {1: 5, 3: 1}), alpha[1]])
    second = running.pool(NOW)
    assert second["db"] is first["db"]
    assert second["web"].observed_seconds == first["web"].observed_seconds + 5.0
    assert (second["web"].containers, second["web"].nodes) == (2, 2)


def test_a_service_ends_with_its_last_container_and_has_its_most_common_image() -> None:
    running = RunningServices(WEIGHTS)
    running.put("alpha", [watched("alpha", "web", {}, image="old"), watched("alpha", "web", {}, image="new")])
    running.put("beta", [watched("beta", "web", {}, image="new")])
    web = running.pool(NOW)["web"]
    assert (web.image, web.containers, web.observed_seconds) == ("new", 3, 0.0)
    assert_allclose(web.statistics, NOT_MEASURED)
    running.put("alpha", [])
    assert running.pool(NOW)["web"].containers == 1
    running.put("beta", [])
    assert not running.pool(NOW)
