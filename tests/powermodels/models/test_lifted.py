"""Power of a part of a machine, lifted to the whole."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermodels.common.host_facts import read_host_facts
from powermodels.common.interface import Load, Scope, Terms
from powermodels.learning.learner import first_curve
from powermodels.models.lifted import LiftedModel, lift
from powermodels.models.prior import PriorModel
from tests.powermodels.hosts import HASWELL, write_proc

watts = st.floats(0, 500)
all_terms = st.builds(Terms, watts, watts, watts, watts, watts)
parts = st.builds(Terms, watts, watts, watts)
PARTIAL = st.sampled_from([Scope.CPU, Scope.CPU_AND_MEMORY])


@given(parts, all_terms, PARTIAL, st.floats(0, 0.6))
def test_the_whole_is_at_least_what_was_measured_and_what_the_rest_draws(
    part: Terms, whole: Terms, scope: Scope, whole_error: float
) -> None:
    measured = part if scope is Scope.CPU_AND_MEMORY else Terms(part.idle_watts, part.cpu_watts)
    lifted, _ = lift(measured, scope, 0.1, whole, whole_error)
    assert lifted.watts >= measured.watts
    assert lifted.idle_watts >= whole.idle_watts * (1 - 1e-9)
    more, _ = lift(Terms(measured.idle_watts + 10, measured.cpu_watts), scope, 0.1, whole, whole_error)
    assert more.idle_watts >= lifted.idle_watts - 1e-6
    assert (lifted.disk_watts, lifted.network_watts) == (whole.disk_watts, whole.network_watts)


@given(parts, all_terms, PARTIAL, st.floats(0.01, 0.3), st.floats(0.01, 0.6))
def test_the_error_grows_with_the_part_that_is_estimated(
    part: Terms, whole: Terms, scope: Scope, part_error: float, whole_error: float
) -> None:
    lifted, error = lift(part, scope, part_error, whole, whole_error)
    if lifted.watts <= 0:
        return
    assert error <= whole_error + part_error + 0.1
    assert error * lifted.watts >= whole_error * whole.idle_watts - 1e-9


def test_a_meter_of_the_whole_machine_is_not_lifted() -> None:
    part, whole = Terms(50, 30), Terms(90, 100)
    assert lift(part, Scope.NODE, 0.05, whole, 0.4) == (part, 0.05)


def test_a_metered_machine_and_one_without_a_meter_have_like_curves(tmp_path: Path) -> None:
    facts = read_host_facts(write_proc(tmp_path / "proc", HASWELL, 4), tmp_path)
    prior = PriorModel.for_host(facts)
    load = Load(0.3, 0.2, 0.0, 0.0)
    # RAPL reads about two fifths of the power at the wall, as on the machine where 8 W met 21 W.
    of_rapl = first_curve(prior, facts, Scope.CPU, load, 0.4 * prior.terms(load).watts)
    lifted = LiftedModel(of_rapl, prior)
    assert of_rapl.terms(load).watts < 0.5 * prior.terms(load).watts
    for cpu in (0.0, 0.1, 0.3, 0.6, 1.0):
        of_prior = prior.terms(Load(cpu, 0.2, 0.0, 0.0)).watts
        assert lifted.terms(Load(cpu, 0.2, 0.0, 0.0)).watts == pytest.approx(of_prior, rel=prior.error_ratio)
    assert of_rapl.error_ratio * 0.5 < lifted.error_ratio <= prior.error_ratio
    assert lifted.scope is Scope.NODE
