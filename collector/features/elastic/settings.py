"""Elastic services: the target of each, and the bounds within which it is scaled and resized."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from wire.errors import UserError
from wire.settings import NamedTables, Section

if TYPE_CHECKING:
    from collector.config import CollectorConfig

DEFAULT_POLICY = "queueing"


class WeightsConfig(Section, frozen=True):
    """Weights of the parts of the cost of a service; their sum need not be 1."""

    performance: Annotated[
        float, Meta(ge=0, le=1e6, description="Weight of the time above `metric_max` in the cost.")
    ] = 0.90
    resources: Annotated[
        float, Meta(ge=0, le=1e6, description="Weight of replicas and CPU limits in the cost.")
    ] = 0.09
    adaptation: Annotated[float, Meta(ge=0, le=1e6, description="Weight of changes in the cost.")] = 0.01


class ElasticRule(Section, frozen=True):
    """A service whose replicas, and optionally CPU limits, follow its load.

    An unset setting has the value of the service's label, or else its default.
    """

    metric_max: Annotated[
        Annotated[float, Meta(gt=0, le=1e12)] | None,
        Meta(
            description="Bound of the metric: with probes, of the 95th percentile of response times, in"
            " seconds. Unset uses the label `wattpack.elastic`.",
        ),
    ] = None
    query: Annotated[
        str,
        Meta(
            description="PromQL query of the metric, sent to `store.url`. Of several series, the highest"
            " value counts. Empty uses the response times that agents measure (`probe.enabled` of the agents,"
            " label `wattpack.probe`)."
        ),
    ] = ""
    replicas_min: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(description="Minimum number of replicas; 1 by default."),
    ] = None
    replicas_max: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(description="Maximum number of replicas; 10 by default."),
    ] = None
    cpu_min_cores: Annotated[
        Annotated[float, Meta(gt=0, le=1e4)] | None,
        Meta(description="Smallest CPU limit of a replica; 0.1 by default."),
    ] = None
    cpu_max_cores: Annotated[
        Annotated[float, Meta(gt=0, le=1e4)] | None,
        Meta(description="Largest CPU limit of a replica; 1 by default."),
    ] = None
    cpu_step_cores: Annotated[
        Annotated[float, Meta(ge=0, le=1e4)] | None,
        Meta(
            description="Step in which the CPU limit changes. 0, the default, keeps the limit, because a"
            " change replaces every task of a Swarm service.",
        ),
    ] = None
    weights: WeightsConfig = WeightsConfig()
    cool_down_seconds: Annotated[
        float, Meta(ge=0, le=86_400, description="Minimum time between two changes of the service.")
    ] = 60.0
    decide_seconds: Annotated[
        float, Meta(ge=1, le=86_400, description="Time between two decisions about the service.")
    ] = 30.0
    utilization_target: Annotated[
        float,
        Meta(
            gt=0, le=1, description="CPU usage that the policy `threshold` aims at, as a share of the limit."
        ),
    ] = 0.8
    explore: Annotated[
        Literal["allowed", "never"] | None,
        Meta(
            description="Whether a policy may try a size whose effect it does not know: `allowed` (default)"
            " or `never`. It never does while the metric is above its bound."
        ),
    ] = None
    policy: Annotated[str, Meta(description="Policy that decides. `GET /v1/elastic` lists the policies.")] = (
        DEFAULT_POLICY
    )

    def __post_init__(self) -> None:
        for low, high in (("replicas_min", "replicas_max"), ("cpu_min_cores", "cpu_max_cores")):
            smallest, largest = getattr(self, low), getattr(self, high)
            if smallest is not None and largest is not None and smallest > largest:
                raise UserError(f"{low} ({smallest:g}) must not be above {high} ({largest:g})")


def has_queries(rules: Mapping[str, ElasticRule]) -> bool:
    """Whether the metric of any service is queried from a store."""
    return any(rule.query for rule in rules.values())


def check_rules(config: "CollectorConfig") -> None:
    """Refuse a policy that does not exist, and a query that no store answers."""
    from collector.features.elastic.scaling.table import ELASTIC_POLICIES  # noqa: PLC0415 - policies import numpy

    for name, rule in config.tables(ElasticRule).items():
        if rule.query and not config.store.url:
            raise UserError(
                f"store.url: empty, but [elastic.{name}] has a query: set it to the address of the store,"
                " such as http://127.0.0.1:9090"
            )
        if rule.policy not in ELASTIC_POLICIES:
            near = get_close_matches(rule.policy, ELASTIC_POLICIES, n=1)
            advice = f"did you mean {near[0]!r}? Or choose" if near else "choose"
            raise UserError(
                f"elastic.{name}.policy: there is no policy {rule.policy!r}: {advice} one of"
                f" {', '.join(ELASTIC_POLICIES)}"
            )


TABLES = {
    "elastic": NamedTables(
        kind=ElasticRule,
        description="`[elastic.web]`: a table per service that is scaled with its load, by its name in"
        " the orchestrator. [elastic.md](elastic.md) lists the keys, such as `metric_max`"
        " (bound of the response time in seconds, or of the metric of `query`), `replicas_max` (10) and"
        " `policy`. Labels `wattpack.elastic*` of the service mean the same.",
    )
}
CHECKS = (check_rules,)
