"""The targets of elastic services, from settings or labels."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

import msgspec

from collector.common.applications import parse_delay
from collector.common.labels import (
    ELASTIC_CPU_LABEL,
    ELASTIC_EXPLORE_LABEL,
    ELASTIC_LABEL,
    ELASTIC_REPLICAS_LABEL,
    NEVER,
)
from collector.common.orchestrator import Mode, ServiceView
from collector.features.elastic.scaling.interface import Target
from wire.errors import UserError
from wire.settings import NamedTables

if TYPE_CHECKING:
    from collector.config import CollectorConfig

_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_REPLICAS = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_CPU = re.compile(rf"({_NUMBER})-({_NUMBER})(?:/({_NUMBER}))?")
_DEFAULT_STEP = 0.1
_MAX_REPLICAS, _MAX_CORES = 10_000, 10_000.0
_MIN_SECONDS, _MAX_SECONDS = 1e-6, 1e6
"""Bounds of a response time that a label may name."""


def elastic_target(service: ServiceView, settings: Mapping[str, Target]) -> Target | None:
    """Return the target of a service; None if it is not elastic. A table of the settings replaces labels."""
    plain = service.name
    if service.mode is Mode.STANDALONE:
        plain = service.name.rpartition("@")[0]  # the settings of `NAME` also apply to `NAME@HOST`
    target = settings.get(service.name) or settings.get(plain) or _labelled_target(service.labels)
    if target is None or service.mode is Mode.GLOBAL:
        return None
    if service.mode is Mode.STANDALONE:
        # A single container can only be resized.
        return msgspec.structs.replace(target, replicas_min=1, replicas_max=1)
    return target


def _labelled_target(labels: Mapping[str, str]) -> Target | None:
    """Return the target of labels; of an invalid range, the default."""
    seconds = parse_delay(labels.get(ELASTIC_LABEL, ""))
    if seconds is None or not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        return None
    target = Target(metric_max=seconds, explore=labels.get(ELASTIC_EXPLORE_LABEL) != NEVER)
    if found := _REPLICAS.fullmatch(labels.get(ELASTIC_REPLICAS_LABEL, "").strip()):
        fewest, most = (int(each) for each in found.groups())
        if 1 <= fewest <= most <= _MAX_REPLICAS:
            target = msgspec.structs.replace(target, replicas_min=fewest, replicas_max=most)
    if found := _CPU.fullmatch(labels.get(ELASTIC_CPU_LABEL, "").strip()):
        low, high, step = (float(each or _DEFAULT_STEP) for each in found.groups())
        if 0 < low <= high <= _MAX_CORES:
            target = msgspec.structs.replace(
                target, cpu_min_cores=low, cpu_max_cores=high, cpu_step_cores=step
            )
    return target


def check_targets(config: "CollectorConfig") -> None:
    """Refuse a policy that does not exist, and a query that no store answers."""
    # Imports numpy, which commands that only read settings do without.
    from collector.features.elastic.scaling.table import ELASTIC_POLICIES  # noqa: PLC0415 - see above

    for name, target in config.tables(Target).items():
        if target.query and not config.store.url:
            raise UserError(
                f"store.url: empty, but [elastic.{name}] has a query: set it to the address of the store,"
                " such as http://127.0.0.1:9090"
            )
        if target.policy not in ELASTIC_POLICIES:
            near = get_close_matches(target.policy, ELASTIC_POLICIES, n=1)
            advice = f"did you mean {near[0]!r}? Or choose" if near else "choose"
            raise UserError(
                f"elastic.{name}.policy: there is no policy {target.policy!r}: {advice} one of"
                f" {', '.join(ELASTIC_POLICIES)}"
            )


TABLES = {
    "elastic": NamedTables(
        kind=Target,
        description="`[elastic.web]`: a table per service that is scaled with its load, by its name in"
        " the orchestrator. [elastic.md](elastic.md) lists the keys, such as `metric_max`"
        " (bound of the response time in seconds, or of the metric of `query`), `replicas_max` (10) and"
        " `policy`. It replaces the labels `wattpack.elastic*` of the service.",
    )
}
CHECKS = (check_targets,)
