"""A machine's own samples decide which form its curve takes, and how far off that is."""

from dataclasses import replace
from datetime import UTC, datetime
from statistics import fmean

import msgspec
import numpy as np
import pytest

from bench.power.generated import MACHINES, GeneratedMachine, generate, plain_error_ratio
from powermodels.fit.arrays import Workload, workloads_of
from powermodels.fit.fitting import EXTRA, choose_form, expected_error_ratio, fit
from powermodels.fit.forms import Form, fit_form
from powermodels.models.samples import FitRequest, Sample
from powermodels.models.stored import encode

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BY_NAME = {machine.name: machine for machine in MACHINES}


def recorded(machine: GeneratedMachine | str, seed: int = 1) -> list[Workload]:
    made = BY_NAME[machine] if isinstance(machine, str) else machine
    return workloads_of(generate(made, seed), 100)


def chosen(machine: GeneratedMachine | str, seed: int = 1) -> Form:
    return choose_form(recorded(machine, seed), cycles_known=False)


@pytest.mark.parametrize("name", ["memory", "disk", "network"])
def test_a_machine_whose_memory_disk_or_network_draws_much_gets_that_term(name: str) -> None:
    assert {term.removesuffix("_sqrt") for term in chosen(name).extra} == {name}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["steep", "straight", "workloads that differ", "three workloads", "few samples"]
)
def test_where_the_cpu_explains_all_there_is_no_other_term(name: str) -> None:
    assert all(chosen(name, seed).extra == () for seed in range(3))


def test_a_shape_that_the_formula_cannot_follow_gets_the_table() -> None:
    convex = replace(BY_NAME["convex"], spread_ratio=0.02)
    assert chosen(convex).shape == "table"
    concave = replace(BY_NAME["steep"], spread_ratio=0.02)
    assert chosen(concave).shape != "table"


def test_a_lower_mean_alone_is_not_enough() -> None:
    """Traffic that happens to go with one hungry workload lowers the mean error, and proves nothing."""
    odd = "workload 0"

    def with_traffic(sample: Sample) -> Sample:
        return msgspec.structs.replace(
            sample,
            load=replace(sample.load, network_ratio=0.5 if sample.group == odd else 0.0),
            watts=sample.watts * (1.2 if sample.group == odd else 1.0),
        )

    samples = [with_traffic(sample) for sample in generate(BY_NAME["steep"], 3)]
    assert choose_form(workloads_of(samples, 100), cycles_known=False).extra == ()


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_the_choice_is_never_much_worse_than_the_plain_form(machine: GeneratedMachine) -> None:
    parts = recorded(machine)
    assert expected_error_ratio(parts, cycles_known=False) <= 1.05 * plain_error_ratio(parts)


@pytest.mark.slow
def test_the_stated_error_is_the_one_on_workloads_that_come_later() -> None:
    stated, actual = [], []
    for seed in range(6):
        parts = recorded(replace(BY_NAME["steep"], workloads=16), seed)
        known, later = parts[:8], parts[8:]
        stated.append(expected_error_ratio(known, cycles_known=False))
        model = fit_form(known, choose_form(known, cycles_known=False))
        actual.append(fmean(part.error_ratio(model.predict(part)) for part in later))
    assert 1 / 1.3 <= fmean(actual) / fmean(stated) <= 1.3


@pytest.mark.slow
def test_of_a_single_workload_other_loads_are_what_is_left_out() -> None:
    samples = [msgspec.structs.replace(sample, group="") for sample in generate(BY_NAME["steps"], 1)]
    model = fit(FitRequest(samples=tuple(samples), host=""), NOW)
    assert 0.02 < model.error_ratio < 0.5


@pytest.mark.slow
def test_a_machine_is_fitted_by_its_own_samples_alone() -> None:
    """The same bytes, whatever other machines were fitted before."""

    def model_of(name: str) -> bytes:
        return encode(fit(FitRequest(samples=generate(BY_NAME[name], 1), host=name), NOW))

    first = model_of("few samples")
    model_of("memory")
    model_of("convex")
    assert model_of("few samples") == first


@pytest.mark.slow
def test_units_do_not_matter() -> None:
    """A machine ten times as large gets the same form: nothing in the choice is a number of watts."""
    for name in ("memory", "convex", "steep"):
        machine = BY_NAME[name]
        larger = replace(
            machine,
            idle_watts=10 * machine.idle_watts,
            cpu_watts=10 * machine.cpu_watts,
            memory_watts=10 * machine.memory_watts,
        )
        assert chosen(larger) == chosen(machine)


def test_all_terms_are_rising_in_load() -> None:
    model = fit_form(recorded("steps"), Form("mean", extra=EXTRA))
    rows = np.linspace(0, 1, 50)
    lines = Workload(np.column_stack([rows] * recorded("steps")[0].values.shape[1]), np.ones(50))
    assert (np.diff(model.predict(lines)) >= -1e-9).all()
