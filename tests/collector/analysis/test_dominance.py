import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.dominance import DominantSince, capacity_shares, update_dominance
from wire.resources import RESOURCES, Resource

HOUR = 3600.0
NAN = float("nan")


def test_the_resource_with_the_largest_share_of_the_cluster_is_dominant() -> None:
    # Half a core of twelve is more than a gigabyte of twenty-four; the capacity of the disk is unknown.
    shares = capacity_shares([2.0, 1e9, 5e8, NAN], [12.0, 24e9, NAN, 1e9])
    assert shares[:2] == pytest.approx([2 / 12, 1 / 24])
    assert np.isnan(shares[2:]).all()
    found = update_dominance(shares, HOUR, at=5.0)
    assert found is not None
    assert found.history == (DominantSince(Resource.CPU, 5.0),)
    assert "16.667% of the cluster's cpu" in found.explanation


def test_confidence_grows_with_the_lead_and_the_observation_time() -> None:
    def confidence(second: float, observed_seconds: float) -> float:
        found = update_dominance((0.1, second, 0.0, NAN), observed_seconds, at=0.0)
        assert found is not None
        return found.confidence

    assert 0 <= confidence(0.1, HOUR) < confidence(0.05, HOUR) < confidence(0.0, HOUR) < 1
    assert confidence(0.05, 0.0) == 0 < confidence(0.05, 60) < confidence(0.05, HOUR)


def test_a_change_is_remembered_with_its_time_and_a_tie_is_no_change() -> None:
    found = update_dominance((0.2, 0.1, 0.0, 0.0), HOUR, at=1.0)
    found = update_dominance((0.2, 0.201, 0.0, 0.0), HOUR, at=2.0, before=found)
    assert found is not None
    assert found.resource is Resource.CPU
    found = update_dominance((0.2, 0.3, 0.0, 0.0), HOUR, at=3.0, before=found)
    assert found is not None
    assert found.history == (DominantSince(Resource.CPU, 1.0), DominantSince(Resource.MEMORY, 3.0))
    for at in range(100):
        shares = [0.0] * 4
        shares[at % 4] = 1.0
        found = update_dominance(shares, HOUR, at=float(at), before=found)
        assert found is not None
    assert len(found.history) == 20
    assert found.history[-1] == DominantSince(RESOURCES[99 % 4], 99.0)


def test_without_use_there_is_no_new_dominant_resource_and_the_old_one_stays() -> None:
    assert update_dominance((NAN, 0.0, NAN, 0.0), HOUR, at=1.0) is None
    before = update_dominance((0.0, 0.0, 0.5, 0.0), HOUR, at=1.0)
    assert update_dominance((0.0, NAN, 0.0, 0.0), HOUR, at=2.0, before=before) is before


def test_while_the_capacity_of_the_leader_is_not_known_no_resource_becomes_dominant() -> None:
    known = (True, True, False, False)
    assert update_dominance((0.1, 0.05, 0.0, 0.2), HOUR, at=1.0, known=known) is None
    before = update_dominance((0.1, 0.05, 0.0, 0.0), HOUR, at=1.0, known=known)
    assert before is not None
    assert before.resource is Resource.CPU
    assert update_dominance((0.1, 0.05, 0.0, 0.2), HOUR, at=2.0, before=before, known=known) is before


def test_a_known_share_leads_above_one_that_is_at_most_as_large() -> None:
    found = update_dominance((0.2, 0.05, 0.0, 0.1), HOUR, at=1.0, known=(True, True, False, False))
    assert found is not None
    assert found.resource is Resource.CPU
    assert "at most 10.000% of its network" in found.explanation
    assert (found.shares.memory_ratio, found.shares.network_ratio) == (0.05, None)


@given(st.lists(st.tuples(*(st.one_of(st.just(NAN), st.floats(0, 10)) for _ in RESOURCES)), max_size=20))
def test_the_dominant_resource_is_close_to_the_leader(times: list[tuple[float, ...]]) -> None:
    found = None
    for at, shares in enumerate(times):
        found = update_dominance(shares, HOUR, at=float(at), before=found)
        known = np.nan_to_num(shares, nan=0.0)
        if known.max() > 0:
            assert found is not None
            assert known[RESOURCES.index(found.resource)] * 1.06 >= known.max()
            assert 0 <= found.confidence <= 1
