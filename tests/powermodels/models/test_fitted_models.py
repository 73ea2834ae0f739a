"""What holds for every fitted model: bounds, no negative term, more load never draws less, JSON and back."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powermodels.common.interface import HostFacts, Load, Scope
from powermodels.models.adaptive import NODES, AdaptiveModel, Correction
from powermodels.models.fitted import fingerprint
from powermodels.models.regression import LINEAR_FEATURES, CurveModel, LinearModel, Point, TableModel
from powermodels.models.stored import Stored, decode, encode, load, save
from tests.powermodels.fits import MADE, curve, loads, origin, ratios, watts
from wire.errors import UserError
from wire.messages import PowerSource

origins = st.builds(
    lambda low, more, cap: origin(low, low + more, cap), watts, watts, st.none() | st.floats(0, 5000)
)
linear_models = st.builds(
    lambda made, idle, values: LinearModel(
        origin=made,
        idle_watts=idle,
        coefficients_watts=dict(zip(LINEAR_FEATURES, values, strict=True)),
    ),
    origins,
    watts,
    st.tuples(*[watts] * 4),
)


@st.composite
def rising_points(draw: st.DrawFn, least: int) -> tuple[Point, ...]:
    places = sorted(draw(st.sets(ratios, min_size=least, max_size=8)))
    heights = sorted(draw(st.lists(watts, min_size=len(places), max_size=len(places))))
    return tuple(Point(place, height) for place, height in zip(places, heights, strict=True))


curve_features = st.sampled_from([("cpu", "cpu_sqrt"), ("cycles", "cycles_sqrt")])
curve_models = st.builds(
    lambda made, idle, features, values, points: msgspec.structs.replace(
        curve(idle, dict(zip((*features, "disk_sqrt", "network_sqrt"), values, strict=True)), made),
        points=points,
    ),
    origins,
    watts,
    curve_features,
    st.tuples(*[watts] * 4),
    rising_points(0),
)
table_models = st.builds(
    lambda made, points: TableModel(origin=made, points=points), origins, rising_points(1)
)


@st.composite
def adaptive_models(draw: st.DrawFn) -> AdaptiveModel:
    below: CurveModel = draw(curve_models)
    anything = st.floats(-500, 500)
    nodes_watts = tuple(draw(st.lists(anything, min_size=NODES, max_size=NODES)))
    correction = Correction(draw(anything), draw(st.floats(-0.9, 3)), nodes_watts)
    return AdaptiveModel(
        origin=draw(origins), curve=below, correction=correction.rising(below.least_rise_watts), read=MADE
    )


models = st.one_of(linear_models, curve_models, table_models, adaptive_models())


@given(models, loads)
def test_watts_stay_in_the_training_range_and_no_term_is_negative(model: Stored, at: Load) -> None:
    terms = model.terms(at)
    training = model.origin.training
    parts = (terms.idle_watts, terms.cpu_watts, terms.memory_watts, terms.disk_watts, terms.network_watts)
    assert min(parts) >= 0
    assert terms.watts <= training.ceiling_watts * (1 + 1e-9)
    if training.floor_watts <= training.ceiling_watts:
        assert terms.watts >= training.floor_watts * (1 - 1e-9)


@given(models, loads, st.sampled_from(["cpu_ratio", "disk_ratio", "network_ratio"]), ratios)
def test_more_load_never_draws_less(model: Stored, at: Load, resource: str, other: float) -> None:
    now = getattr(at, resource) or 0.0
    low, high = (replace(at, **{resource: pick(now, other)}) for pick in (min, max))
    assert model.terms(low).watts <= model.terms(high).watts + 1e-6


@given(models)
def test_idle_power_does_not_depend_on_load(model: Stored) -> None:
    assert model.terms(Load(0.0)).idle_watts == model.terms(Load(1.0, 1.0, 1.0, 1.0)).idle_watts


@given(models)
def test_a_model_survives_json(model: Stored) -> None:
    assert decode(encode(model)) == model


@pytest.mark.parametrize("ratio", [float("nan"), float("inf"), -1.0, 17.0])
def test_impossible_loads_give_possible_watts(ratio: float) -> None:
    assert 100 <= curve().terms(Load(ratio, ratio, ratio, ratio, ratio)).watts <= 240


def test_frequency_counts_only_for_a_curve_by_cycles() -> None:
    by_time = curve(coefficients_watts={"cpu": 100.0})
    by_cycles = curve(coefficients_watts={"cycles": 100.0})
    slow = Load(0.8, frequency_ratio=0.5)
    assert by_time.terms(slow).cpu_watts == pytest.approx(80)
    assert by_cycles.terms(slow).cpu_watts == pytest.approx(40)
    assert by_cycles.terms(Load(0.8)).cpu_watts == pytest.approx(80)


def test_a_table_gives_back_its_points_and_lines_between() -> None:
    model = TableModel(origin=origin(), points=(Point(0.0, 100.0), Point(0.5, 180.0), Point(1.0, 200.0)))
    at = [model.terms(Load(ratio)).watts for ratio in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert at == pytest.approx([100, 140, 180, 190, 200])


def test_file_contains_the_origin_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    save(curve(), path)
    text = path.read_text()
    for word in ('"kind": "curve"', '"version": 1', "features", "scaling", "training", "error_ratio", "made"):
        assert word in text
    model = load(path)
    assert model == curve()
    assert list(tmp_path.iterdir()) == [path]
    assert (model.source, model.scope, model.error_ratio) == (PowerSource.MODEL, Scope.NODE, 0.05)
    assert model.describe() == "curve model of the whole machine, fitted to 100 samples on 2025-11-16, ±5%"


def test_adaptive_model_describes_the_last_meter_reading() -> None:
    model = AdaptiveModel(
        origin=origin(), curve=curve(), correction=Correction(), read=MADE + timedelta(hours=3)
    )
    assert "last read on 2025-11-16 15:00" in model.describe()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version": 1', b'"version": 2'),
        (b'"kind": "curve"', b'"kind": "oracle"'),
        (b'"idle_watts": 100.0', b'"idle_watts": -100.0'),
        (b'"cpu": 60.0', b'"moon": 60.0'),
        (b'"host"', b'"guest"'),
    ],
)
def test_a_file_that_is_not_a_model_is_refused_with_a_way_out(tmp_path: Path, old: bytes, new: bytes) -> None:
    text = encode(curve())
    assert old in text
    path = tmp_path / "model.json"
    path.write_bytes(text.replace(old, new))
    with pytest.raises(UserError, match=r"is not a valid model.*wattpack power calibrate"):
        load(path)


def test_missing_file_and_unwritable_path_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the model"):
        load(tmp_path / "none.json")
    with pytest.raises(UserError, match="cannot write the model"):
        save(curve(), tmp_path / "none" / "model.json")


@pytest.mark.parametrize(
    "points", [(), (Point(0.5, 1.0), Point(0.5, 2.0)), (Point(0.1, 2.0), Point(0.2, 1.0))]
)
def test_points_that_make_no_table_are_refused(points: tuple[Point, ...]) -> None:
    with pytest.raises(ValueError, match="table"):
        TableModel(origin=origin(), points=points)


def test_a_correction_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="nodes"):
        Correction(0.0, 0.0, (1.0,))
    with pytest.raises(ValueError, match="gain"):
        Correction(0.0, -1.0)


def test_other_hardware_is_another_machine() -> None:
    facts = HostFacts("Xeon", 2, 16, 32, 64 << 30)
    assert fingerprint(facts) == fingerprint(replace(facts, memory_bytes=(64 << 30) - 1000))
    assert fingerprint(facts) != fingerprint(replace(facts, memory_bytes=128 << 30))
    assert fingerprint(facts) != fingerprint(replace(facts, cores=8))
