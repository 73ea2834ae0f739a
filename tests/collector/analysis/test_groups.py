import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.groups import Group, Grouping, group, shapes
from collector.common.arrays import Floats
from collector.snapshot.tables import NOWHERE
from tests.collector.report_strategies import patient
from wire.resources import RESOURCES, Resource

GIGABYTE = 1e9


def cluster(*sorts: tuple[float, float, float, float], each: int = 20, seed: int = 0) -> Floats:
    """Containers that scatter by a tenth around these needs."""
    rng = np.random.default_rng(seed)
    return np.concatenate([np.array(sort) * rng.normal(1, 0.1, (each, 4)).clip(0.5) for sort in sorts])


FOUR_SORTS = (
    (4.0, 0.2 * GIGABYTE, 1e5, 1e5),
    (0.1, 8.0 * GIGABYTE, 1e5, 1e5),
    (0.1, 0.2 * GIGABYTE, 1e8, 1e5),
    (0.1, 0.2 * GIGABYTE, 1e5, 1e8),
)


def grouped(envelopes: Floats, *, count: int = 4, last: tuple[Group, ...] = ()) -> Grouping:
    return group(
        envelopes, np.ones(len(envelopes), bool), np.zeros(len(envelopes), bool), count=count, last=last
    )


def names(found: Grouping) -> list[str]:
    by_number = {each.number: each.name for each in found.groups}
    return [by_number[number] for number in found.group_of.tolist()]


def test_each_group_is_named_after_its_dominant_resource() -> None:
    found = grouped(cluster(*FOUR_SORTS))
    assert names(found) == [resource for resource in RESOURCES for _ in range(20)]
    assert {each.name: each.containers for each in found.groups} == dict.fromkeys(RESOURCES, 20)


def test_small_and_large_containers_of_one_shape_are_in_one_group() -> None:
    sizes = np.linspace(0.01, 3, 20)[:, None]
    found = grouped(np.concatenate([np.array(sort) * sizes for sort in FOUR_SORTS]))
    assert names(found) == [resource for resource in RESOURCES for _ in range(20)]


def test_two_groups_of_one_resource_have_different_names() -> None:
    pure, mixed = (4.0, 0.01 * GIGABYTE, 0.0, 0.0), (4.0, 1.6 * GIGABYTE, 0.0, 0.0)
    found = grouped(cluster(pure, mixed, (0.1, 8.0 * GIGABYTE, 0.0, 0.0)), count=3)
    assert sorted(each.name for each in found.groups) == ["cpu", "cpu-2", "memory"]


@pytest.mark.parametrize("seed", range(5))
def test_groups_keep_their_names_when_containers_change(seed: int) -> None:
    first = grouped(cluster(*FOUR_SORTS))
    rng = np.random.default_rng(seed)
    order = rng.permutation(4 * 30)
    envelopes = cluster(*FOUR_SORTS, each=30, seed=seed)[order]
    second = grouped(envelopes, last=first.groups)
    assert {each.number: each.name for each in second.groups} == {
        each.number: each.name for each in first.groups
    }
    assert names(second) == [RESOURCES[place] for place in order // 30]


def test_the_number_of_a_vanished_group_is_not_reused() -> None:
    first = grouped(cluster(*FOUR_SORTS))
    second = grouped(cluster(*FOUR_SORTS[1:]), count=3, last=first.groups)
    number = {each.name: each.number for each in first.groups}
    for each in second.groups:
        assert each.number == number[each.name]


def test_the_number_of_groups_is_chosen_by_their_silhouette() -> None:
    assert len(grouped(cluster(*FOUR_SORTS), count=0).groups) == 4
    assert len(grouped(cluster(*FOUR_SORTS[:2]), count=0).groups) == 2


def test_fewer_different_containers_than_groups_make_fewer_groups() -> None:
    heavy = [(2.0, GIGABYTE, 0.0, 0.0)] * 6 + [(1.0, 2 * GIGABYTE, 0.0, 0.0)] * 6
    assert names(grouped(np.array(heavy))) == ["cpu"] * 6 + ["memory"] * 6
    assert len(grouped(np.array(heavy), count=0).groups) == 1
    assert len(grouped(np.zeros((5, 4))).groups) == 1


def test_groups_come_from_measured_envelopes_and_unknown_containers_have_none() -> None:
    envelopes = cluster(*FOUR_SORTS)
    measured = np.ones(80, bool)
    estimated = np.zeros(80, bool)
    measured[[0, 25]] = False
    estimated[25] = True
    found = group(envelopes, measured, estimated, count=4)
    by_number = {each.number: each.dominant for each in found.groups}
    assert found.group_of[0] == NOWHERE
    assert by_number[int(found.group_of[25])] is Resource.MEMORY
    assert sum(each.containers for each in found.groups) == 79


def test_without_containers_groups_stay() -> None:
    first = grouped(cluster(*FOUR_SORTS))
    assert grouped(np.empty((0, 4)), last=first.groups).groups == first.groups


needs = st.lists(
    st.tuples(*(st.one_of(st.just(0.0), st.floats(1e-3, 1e10)) for _ in RESOURCES)), min_size=1, max_size=40
)


@patient
@given(needs, st.integers(1, 5))
def test_every_container_has_one_group_and_names_are_unique(
    table: list[tuple[float, ...]], count: int
) -> None:
    envelopes = np.array(table)
    found = grouped(envelopes, count=count)
    again = grouped(envelopes, count=count)
    assert (found.group_of == again.group_of).all()
    assert found.groups == again.groups
    assert len({each.name for each in found.groups}) == len(found.groups) <= count
    assert set(found.group_of.tolist()) <= {each.number for each in found.groups}
    assert sum(each.containers for each in found.groups) == len(table)
    assert shapes(envelopes, envelopes.mean(axis=0)).sum(axis=1) == pytest.approx(1.0)
