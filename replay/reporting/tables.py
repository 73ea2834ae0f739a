"""The results of a replay as tables, for a terminal and for the page."""

from collections.abc import Iterator, Mapping

from msgspec import UnsetType

from replay.simulation.elastic.compare import ElasticResult
from replay.simulation.results import PolicyResult

Row = dict[str, str]
"""The cells of a row by the titles of their columns, which all rows of a table have in the same order."""


def rows_of(policies: Mapping[str, PolicyResult]) -> Iterator[Row]:
    """A row per policy."""
    for name, result in policies.items():
        shares = result.overloaded_node_time_ratio.values()
        bound = result.lower_bound_kwh
        yield {
            "POLICY": name,
            "kWh": f"{result.energy_kwh:.2f}",
            "OVER BOUND": f"{result.energy_kwh / bound:.2f}" if bound else "-",
            "NODE HOURS": f"{result.node_hours:.1f}",
            "MOVES": str(result.migrations),
            "OVERLOADED %": " ".join(f"{100 * share:.2f}" for share in shares),
            "PLACED": str(result.placed + result.placed_later),
            "REFUSED": str(result.refused + result.waiting_at_end),
            "p99 ms": _number(result.timing.place_p99_ms, ".1f"),
        }


def slo_rows_of(policies: Mapping[str, PolicyResult]) -> Iterator[Row]:
    """A row per policy and class of promises; what counts for the whole run is in the first of a policy."""
    for name, result in policies.items():
        if isinstance(result.slo, UnsetType):
            continue
        for place, (promise, kept) in enumerate(result.slo.items()):
            yield {
                "POLICY": name,
                "CLASS": promise,
                "REQUESTS": str(kept.requests),
                "KEPT %": f"{100 * kept.met_ratio:.2f}",
                "MEAN %": f"{100 * kept.mean_availability:.2f}",
                "LOWEST %": f"{100 * kept.min_availability:.2f}",
                "GINI": f"{kept.gini:.3f}",
                "PENALTY": "" if place else f"{result.penalty:.0f}",
                "STOPPED": "" if place else str(result.preemptions),
            }


def application_rows_of(policies: Mapping[str, PolicyResult]) -> Iterator[Row]:
    """A row per policy and application."""
    for name, result in policies.items():
        if isinstance(result.applications, UnsetType):
            continue
        for application, each in result.applications.items():
            yield {
                "POLICY": name,
                "APPLICATION": application,
                "MEAN ms": _number(each.response_mean_ms, ".1f"),
                "p95 ms": _number(each.response_p95_ms, ".1f"),
                "ABOVE %": _number(each.above_ratio, ".2f", 100),
                "APART %": _number(each.apart_time_ratio, ".1f", 100),
                "HOSTS": _number(each.hosts_mean, ".2f"),
                "CONTAINERS": _number(each.containers_mean, ".2f"),
                "OPERATIONS/s": _number(each.operations_per_second, ".0f"),
            }


def _number(value: float | None, spec: str, scale: float = 1.0) -> str:
    return "-" if value is None else format(value * scale, spec)


def elastic_rows_of(policies: Mapping[str, ElasticResult]) -> Iterator[Row]:
    """A row per policy."""
    for name, each in policies.items():
        yield {
            "POLICY": name,
            "ABOVE BOUND %": f"{100 * each.violations_ratio:.2f}",
            "LATE REQUESTS %": f"{100 * each.late_requests_ratio:.2f}",
            "CORE MINUTES": f"{each.core_minutes:.0f}",
            "REPLICAS": f"{each.replicas_mean:.2f}",
            "HOSTS": _number(each.hosts_mean, ".2f"),
            "LIMIT": f"{each.cpu_limit_mean_cores:.2f}",
            "USED %": f"{100 * each.utilization_mean_ratio:.1f}",
            "kWh": f"{each.energy_kwh:.3f}",
            "CHANGES": str(each.actions),
            "OF LIMIT": str(each.vertical_actions),
        }
