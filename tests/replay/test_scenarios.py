"""The scenarios that come with the project: each is sound, and the small ones come out as the papers say."""

from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from bench.scenarios.report import page, read
from collector.config import CollectorConfig, PlacementConfig
from replay.contenders.table import ELASTIC_POLICIES
from replay.reporting.references import FigureComparison, compare_figures, format_value
from replay.setup.scenario import Choice, read_scenario
from replay.simulation.compare import compare
from replay.simulation.elastic.compare import ElasticResult
from replay.simulation.policy_runs import resolve_runs
from replay.simulation.results import PolicyResult
from replay.sources import GENERATORS, arrivals_of, workloads
from wattpack.datasets.catalogue import DATASETS
from wattpack.datasets.traces import locate_in
from wire.errors import UserError
from wire.resources import Resource

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted((ROOT / "scenarios").glob("*.toml"))
FIGURES = set(PolicyResult.__struct_fields__)
ELASTIC_FIGURES = set(ElasticResult.__struct_fields__)


def replay(
    name: str, *policies: str, **settings: object
) -> tuple[dict[str, PolicyResult], list[FigureComparison]]:
    scenario = read_scenario(ROOT / "scenarios" / f"{name}.toml")
    if settings:
        assert scenario.trace is not None
        trace = msgspec.structs.replace(scenario.trace, settings={**scenario.trace.settings, **settings})
        scenario = msgspec.structs.replace(scenario, trace=trace)
    workload, earlier = workloads(scenario, ROOT / "scenarios", locate_in([]))
    found = compare(
        policies or list(scenario.run), scenario, workload, earlier, lambda *_: nullcontext(lambda _: None)
    )
    return found.policies, compare_figures(found.policies, scenario.expected)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
class TestEvery:
    def test_policies_of_the_scenario_exist(self, path: Path) -> None:
        scenario = read_scenario(path)
        if scenario.elastic is None:
            assert len(resolve_runs(list(scenario.run), scenario)) == len(scenario.run)
        else:
            chosen = (scenario.policies.get(name, Choice(policy=name)).policy for name in scenario.run)
            assert set(chosen) <= set(ELASTIC_POLICIES)
            assert arrivals_of(scenario, path.parent).rates.size

    def test_the_trace_is_a_generator_or_a_data_set(self, path: Path) -> None:
        trace = read_scenario(path).trace
        if trace is not None and trace.generator is not None:
            assert trace.generator in GENERATORS
        elif trace is not None:
            assert trace.dataset in DATASETS
            assert trace.learn is None or trace.learn in DATASETS

    def test_expected_figures_are_figures_of_results(self, path: Path) -> None:
        scenario = read_scenario(path)
        known = FIGURES if scenario.elastic is None else ELASTIC_FIGURES
        assert {each.figure.split(".")[0] for each in scenario.expected} <= known
        assert {each.policy for each in scenario.expected} <= set(scenario.run)

    def test_what_is_published_as_shipped_is_shipped(self, path: Path) -> None:
        scenario = read_scenario(path)
        assert set(scenario.beside) <= set(scenario.run)
        for shipped in resolve_runs(scenario.beside[:1], scenario):
            policy = shipped.chosen.policy
            assert (policy.name, shipped.chosen.settings) == (PlacementConfig().policy, policy.settings())
            assert shipped.collector == CollectorConfig()
            assert shipped.timer is None
            assert shipped.alerts is not None


@pytest.mark.slow
def test_motivating_example_needs_three_nodes_where_others_place_ten() -> None:
    results, compared = replay("genpack-motivating")
    assert {name: result.placed for name, result in results.items()} == {
        "spread": 10,
        "binpack": 10,
        "genpack": 12,
        "least-watts": 12,
    }
    assert all(each.ok for each in compared)
    used = [name for name, node in results["genpack"].nodes.items() if node.containers]
    assert used == ["node-1", "node-2", "node-3"]


@pytest.mark.slow
def test_spread_runs_the_small_worker_out_of_memory_and_draps_does_not() -> None:
    results, compared = replay("draps-140", "spread", "draps")
    assert results["spread"].nodes["worker-1"].containers < 10
    assert results["spread"].died >= 30
    assert results["draps"].died == 0
    assert all(each.ok for each in compared)


@pytest.mark.slow
def test_loaded_containers_kill_the_small_worker_too_and_draps_holds_it() -> None:
    results, compared = replay("draps-loaded", "spread", "draps")
    idle, _ = replay("draps-140", "spread")
    assert results["spread"].died >= 30
    assert results["spread"].first_died_seconds is not None
    assert idle["spread"].first_died_seconds is not None
    assert results["spread"].first_died_seconds <= idle["spread"].first_died_seconds
    assert results["draps"].died == 0
    assert results["draps"].first_died_seconds is None
    assert all(each.ok for each in compared)


@pytest.mark.slow
def test_cuts_are_counted_with_what_they_take_and_what_is_given_back() -> None:
    results, _ = replay("energy4cloud-hour", "energy4cloud-at-once", hours=0.2)
    [result] = results.values()
    assert result.cuts > 0
    # A request has at most one core and 2 GiB, and a cut takes at most half of it.
    assert 0 < result.cut_cores <= 0.5 * result.cuts
    assert 0 < result.cut_memory_bytes <= result.cuts * (1 << 30)
    assert result.given_back > 0


@pytest.mark.slow
def test_draps_evens_out_what_spread_piles_on_the_small_worker() -> None:
    results, _ = replay("draps-100", "spread", "draps")
    spread, draps = results["spread"].nodes["worker-1"], results["draps"].nodes["worker-1"]
    assert spread.used_ratio[Resource.MEMORY] == pytest.approx(0.805, abs=0.02)
    assert draps.used_ratio[Resource.MEMORY] < 0.5


@pytest.mark.slow
def test_borg_like_jobs_draw_less_the_better_they_are_packed() -> None:
    results, _ = replay("genpack-borg", hours=0.5)
    spread = results["spread"].energy_kwh
    assert results["binpack"].energy_kwh < 0.95 * spread
    assert results["genpack"].energy_kwh < 0.77 * spread
    assert results["least-watts"].energy_kwh < 0.8 * spread
    assert all(result.refused == 0 for result in results.values())


def test_an_unknown_expected_figure_is_an_error() -> None:
    scenario = read_scenario(ROOT / "scenarios" / "genpack-motivating.toml")
    wrong = msgspec.structs.replace(scenario.expected[0], figure="utilisation_ratio.gpu")
    scenario = msgspec.structs.replace(scenario, expected=(wrong,))
    workload, _ = workloads(scenario, ROOT, locate_in([]))
    found = compare(["spread"], scenario, workload, None, lambda *_: nullcontext(lambda _: None))
    with pytest.raises(UserError, match=r"utilisation_ratio\.gpu"):
        compare_figures(found.policies, scenario.expected)


def test_only_ratios_are_shown_as_percent() -> None:
    results, compared = replay("genpack-motivating", "genpack")
    of_placed = next(each for each in compared if each.figure == "placed")
    counted = msgspec.structs.replace(
        of_placed, figure="migrations", ours=float(results["genpack"].migrations)
    )
    assert format_value(counted, counted.ours) == "12"
    assert format_value(msgspec.structs.replace(counted, figure="placed_ratio"), 0.5) == "50.0 %"


def test_page_of_results_is_made_from_its_numbers() -> None:
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == page(read(ROOT / "docs"))


def test_page_shows_what_is_shipped_beside_other_settings() -> None:
    stored = read(ROOT / "docs")
    each = stored.scenarios["planetlab-20110303"]
    shown = [row for row in page(stored).splitlines() if row.startswith(f"| {each.title} | ")]
    assert [row.split(" | ")[1] for row in shown] == list(each.beside)
    assert " | +0.0 % | " in shown[0]
    saved = each.policies[each.beside[-1]].energy_kwh / each.policies[each.beside[0]].energy_kwh - 1
    assert f" | {100 * saved:+.1f} % | " in shown[-1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ge-kube-placement", "ge-kube-redis"])
def test_applications_stay_within_their_bound_where_round_trip_times_are_known(name: str) -> None:
    results, compared = replay(name, "kube-blind", "first-fit", "net-aware")
    assert all(each.ok for each in compared)
    [blind], [aware] = (
        list(result.applications.values())
        for result in (results["kube-blind"], results["net-aware"])
        if isinstance(result.applications, dict)
    )
    assert blind.apart_time_ratio is not None
    assert blind.apart_time_ratio > 0.9
    assert aware.apart_time_ratio == 0
    assert aware.above_ratio == 0
    assert results["net-aware"].refused == results["first-fit"].refused == 0
