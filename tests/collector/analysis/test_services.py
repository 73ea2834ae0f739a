import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.envelopes import DEFAULT_RULE, Statistic
from collector.analysis.histograms import add_usage, pack
from collector.analysis.services import ContainerBucket, pool
from tests.collector.report_strategies import patient
from wire.messages import ContainerUsage
from wire.sketch import RELATIVE_ERROR, Sketch

loads = st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=30)
containers = st.lists(
    st.tuples(st.integers(0, 6), loads, st.sampled_from([1.0, 5.0, 60.0]), st.sampled_from([1.0, 0.5])),
    max_size=250,
)


def packed(samples: list[float]) -> bytes:
    sketch = Sketch()
    for sample in samples:
        sketch.add(sample)
    (whole,) = pack(*add_usage([None], [ContainerUsage("c", cpu=sketch)], [0]), rows=1)
    return whole


@patient
@given(containers)
def test_a_service_pools_the_samples_of_its_containers_weighted_by_duration(
    buckets: list[tuple[int, list[float], float, float]],
) -> None:
    buckets.sort(key=lambda each: each[0])
    parts = [
        ContainerBucket(service, packed(load), seconds, weight) for service, load, seconds, weight in buckets
    ]
    seen = []
    for service, table, watched in pool(parts, 7, DEFAULT_RULE):
        seen.append(service)
        own = [each for each in buckets if each[0] == service]
        samples = [sample for _, load, _, _ in own for sample in load]
        time = np.array([seconds * weight for _, load, seconds, weight in own for _ in load])
        assert watched == pytest.approx(sum(seconds * len(load) for _, load, seconds, _ in own))
        assert table[0, Statistic.MEAN] == pytest.approx(np.average(samples, weights=time), rel=0.0102)
        # Where a rank falls between two samples, rounding decides: either of them is right.
        near = [
            np.quantile(samples, share, weights=time, method="inverted_cdf") for share in (0.9 - 1e-8, 0.9)
        ]
        found = table[0, Statistic.P90]
        assert any(found == pytest.approx(truth, rel=1.01 * RELATIVE_ERROR) for truth in near)
        assert np.isnan(table[1:]).all()
    assert seen == sorted({service for service, *_ in buckets})
