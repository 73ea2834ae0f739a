from math import fsum, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermodels.attribution.split import container_error_ratio, fit_to_meter, split
from powermodels.common.interface import Load, Scope, Terms

watts = st.floats(0, 1e4)
uses = st.none() | st.floats(0, 4)
loads = st.builds(Load, st.floats(0, 4), uses, uses, uses)
crowds = st.dictionaries(st.text(min_size=1, max_size=4), loads, max_size=12)
all_terms = st.builds(Terms, watts, watts, watts, watts, watts)


def assert_conserved(terms: Terms, node_watts: float, load: Load, containers: dict[str, Load]) -> None:
    parts = split(terms, load, containers)
    shares = parts.containers.values()
    assert fsum((parts.idle_watts, parts.system_watts, *shares)) == pytest.approx(
        node_watts, rel=1e-12, abs=1e-9
    )
    assert parts.containers.keys() == containers.keys()
    assert min((parts.idle_watts, parts.system_watts, *shares)) >= 0
    assert all(share <= node_watts * (1 + 1e-12) for share in shares)


@given(all_terms, loads, crowds)
def test_parts_add_up_and_none_is_negative(terms: Terms, load: Load, containers: dict[str, Load]) -> None:
    assert_conserved(terms, terms.watts, load, containers)


@given(all_terms, watts, st.sampled_from(Scope), loads, crowds)
def test_parts_add_up_to_the_metered_watts(
    terms: Terms, metered_watts: float, scope: Scope, load: Load, containers: dict[str, Load]
) -> None:
    assert_conserved(fit_to_meter(terms, metered_watts, scope), metered_watts, load, containers)


def test_each_term_goes_by_use_of_its_resource() -> None:
    terms = Terms(idle_watts=50, cpu_watts=80, memory_watts=20, disk_watts=4, network_watts=2)
    parts = split(
        terms,
        Load(0.8, 0.5, 0.4, 0.2),
        {"busy": Load(0.4, 0.05, 0.0, 0.0), "hoarder": Load(0.0, 0.25, 0.4, 0.1)},
    )
    assert parts.containers == {
        "busy": pytest.approx(80 / 2 + 20 / 10),
        "hoarder": pytest.approx(20 / 2 + 4 + 2 / 2),
    }
    assert parts.idle_watts == 50
    assert parts.system_watts == pytest.approx(80 / 2 + 20 * 0.4 + 2 / 2)


def test_containers_that_seem_to_use_more_than_the_host_share_all_of_it() -> None:
    parts = split(Terms(10, 90), Load(0.5), {"a": Load(0.4), "b": Load(0.2)})
    assert parts.containers == {"a": pytest.approx(60), "b": pytest.approx(30)}
    assert parts.system_watts == pytest.approx(0)


def test_unknown_usage_belongs_to_the_system() -> None:
    terms = Terms(idle_watts=10, cpu_watts=20, memory_watts=6)
    unknown_of_host = split(terms, Load(0.5, None), {"a": Load(0.5, 0.3)})
    unknown_of_container = split(terms, Load(0.5, 0.5), {"a": Load(0.5, None)})
    assert unknown_of_host.containers == unknown_of_container.containers == {"a": pytest.approx(20)}
    assert unknown_of_host.system_watts == unknown_of_container.system_watts == pytest.approx(6)


def test_a_meter_of_the_node_keeps_the_models_idle_and_corrects_the_rest() -> None:
    terms = Terms(idle_watts=100, cpu_watts=30, memory_watts=10)
    assert fit_to_meter(terms, 180, Scope.NODE) == Terms(100, 60, 20)
    assert fit_to_meter(terms, 70, Scope.NODE) == Terms(70, 0, 0)


def test_a_meter_of_less_corrects_what_it_sees_alike() -> None:
    terms = Terms(idle_watts=100, cpu_watts=80, memory_watts=20, disk_watts=5, network_watts=5)
    assert fit_to_meter(terms, 100, Scope.CPU_AND_MEMORY) == Terms(50, 40, 10)
    assert fit_to_meter(terms, 90, Scope.CPU) == Terms(50, 40)


def test_load_that_only_the_meter_sees_is_the_systems() -> None:
    fitted = fit_to_meter(Terms(idle_watts=100, cpu_watts=0), 130, Scope.NODE)
    assert split(fitted, Load(0.0), {"a": Load(0.0)}).system_watts == pytest.approx(30)


def test_a_containers_error_carries_the_nodes() -> None:
    # 10 W of 100 are 25 % of the 40 dynamic ones; with a third for sharing by use.
    assert container_error_ratio(Terms(60, 40), 0.1) == pytest.approx((0.25**2 + (1 / 3) ** 2) ** 0.5)


@given(all_terms, st.floats(0, 3))
def test_a_containers_error_is_never_less_than_the_nodes(terms: Terms, error_ratio: float) -> None:
    assert error_ratio <= container_error_ratio(terms, error_ratio) < inf
