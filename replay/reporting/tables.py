"""The results of a replay as tables, for a terminal and for the page."""

from collections.abc import Iterator, Mapping

from msgspec import UnsetType

from replay.simulation.elastic.compare import ElasticResult
from replay.simulation.results import PolicyResult

HEADER = ("POLICY", "kWh", "OVER BOUND", "NODE HOURS", "MOVES", "OVERLOADED %", "PLACED", "REFUSED", "p99 ms")


def rows_of(policies: Mapping[str, PolicyResult]) -> Iterator[tuple[str, ...]]:
    """A row per policy, for a table in a terminal."""
    for name, result in policies.items():
        overloaded = " ".join(f"{100 * share:.2f}" for share in result.overloaded_node_time_ratio.values())
        bound = result.lower_bound_kwh
        slowest = result.timing.place_p99_ms
        yield (
            name,
            f"{result.energy_kwh:.2f}",
            f"{result.energy_kwh / bound:.2f}" if bound else "-",
            f"{result.node_hours:.1f}",
            str(result.migrations),
            overloaded,
            str(result.placed + result.placed_later),
            str(result.refused + result.waiting_at_end),
            "-" if slowest is None else f"{slowest:.1f}",
        )


SLO_HEADER = ("POLICY", "CLASS", "REQUESTS", "KEPT %", "MEAN %", "LOWEST %", "GINI", "PENALTY", "STOPPED")


def slo_rows_of(policies: Mapping[str, PolicyResult]) -> Iterator[tuple[str, ...]]:
    """A row per policy and class of promises, for a table in a terminal."""
    for name, result in policies.items():
        if isinstance(result.slo, UnsetType):
            continue
        for place, (promise, kept) in enumerate(result.slo.items()):
            whole_run = ("", "") if place else (f"{result.penalty:.0f}", str(result.preemptions))
            yield (
                name,
                promise,
                str(kept.requests),
                f"{100 * kept.met_ratio:.2f}",
                f"{100 * kept.mean_availability:.2f}",
                f"{100 * kept.min_availability:.2f}",
                f"{kept.gini:.3f}",
                *whole_run,
            )


APPLICATION_HEADER = (
    "POLICY",
    "APPLICATION",
    "MEAN ms",
    "p95 ms",
    "ABOVE %",
    "APART %",
    "HOSTS",
    "CONTAINERS",
    "OPERATIONS/s",
)


def application_rows_of(policies: Mapping[str, PolicyResult]) -> Iterator[tuple[str, ...]]:
    """A row per policy and application, for a table in a terminal."""
    for name, result in policies.items():
        if isinstance(result.applications, UnsetType):
            continue
        for application, each in result.applications.items():
            yield (
                name,
                application,
                _number(each.response_mean_ms, ".1f"),
                _number(each.response_p95_ms, ".1f"),
                _number(each.above_ratio, ".2f", 100),
                _number(each.apart_time_ratio, ".1f", 100),
                _number(each.hosts_mean, ".2f"),
                _number(each.containers_mean, ".2f"),
                _number(each.operations_per_second, ".0f"),
            )


def _number(value: float | None, spec: str, scale: float = 1.0) -> str:
    return "-" if value is None else format(value * scale, spec)


ELASTIC_HEADER = (
    "POLICY",
    "ABOVE BOUND %",
    "LATE REQUESTS %",
    "CORE MINUTES",
    "REPLICAS",
    "LIMIT",
    "USED %",
    "kWh",
    "CHANGES",
    "OF LIMIT",
)


def elastic_rows_of(policies: Mapping[str, ElasticResult]) -> Iterator[tuple[str, ...]]:
    """A row per policy."""
    for name, each in policies.items():
        yield (
            name,
            f"{100 * each.violations_ratio:.2f}",
            f"{100 * each.late_requests_ratio:.2f}",
            f"{each.core_minutes:.0f}",
            f"{each.replicas_mean:.2f}",
            f"{each.cpu_limit_mean_cores:.2f}",
            f"{100 * each.utilization_mean_ratio:.1f}",
            f"{each.energy_kwh:.3f}",
            str(each.actions),
            str(each.vertical_actions),
        )
