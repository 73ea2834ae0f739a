import argparse
import io

import pytest

from bench.common.progress import Progress
from bench.hints import benchmark as hints
from bench.hints.cluster import cluster
from collector.decide.policies.table import POLICIES
from wire.errors import UserError


def options(**changes: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    hints.add_arguments(parser)
    return argparse.Namespace(**vars(parser.parse_args([])) | changes)


def test_every_policy_that_ranks_is_timed() -> None:
    assert options().policies == [name for name, policy in POLICIES.items() if policy.place is not None]


@pytest.mark.slow
@pytest.mark.parametrize("policy", options().policies)
def test_every_policy_finds_a_place_for_most_requests_of_the_benchmark(policy: str) -> None:
    times = hints.time_hints(cluster(50, 20), policy, 40)
    assert len(times.cpu_milliseconds) == len(times.wall_milliseconds) == 40
    assert sum(fitting > 0 for fitting in times.fitting) > 20


@pytest.mark.slow
def test_it_measures_inside_and_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "SIZES", (5, 10))
    chosen = options(
        nodes=30, per_node=5, hints=10, policies=["least-watts", "draps"], instances=2, containers=30
    )
    result = hints.run(chosen, Progress(io.StringIO()))
    measured = {figure.name: figure.value for figure in result.figures}
    for policy in chosen.policies:
        for name in ("inside_p99", "inside_cpu_p99", "http_p99", "prioritize_p99", "growth_5_to_10"):
            assert (measured[f"{name}_{policy}"] or 0.0) > 0
    assert {"in_order_percent", "phase_seconds"} <= measured.keys()


def test_invalid_options_are_rejected() -> None:
    with pytest.raises(UserError, match="best cannot rank nodes"):
        hints.run(options(policies=["best"]), Progress(io.StringIO()))
    with pytest.raises(UserError, match="at least 1"):
        hints.run(options(nodes=0), Progress(io.StringIO()))
