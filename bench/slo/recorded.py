"""The ledger on the authors' recorded Kubernetes runs: mean availability per class in the first hour."""

import gzip
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path

from bench.common.progress import Progress
from bench.common.results import Figure
from collector.features.promises.ledger.events import LifecycleEvent
from collector.features.promises.ledger.ledger import Ledger
from collector.features.promises.ledger.promises import Promise, ServiceMode
from collector.features.promises.recorded import class_of, parse_log
from wattpack.cli import main
from wattpack.datasets.catalogue import require, search_path
from wire.errors import UserError

LOGS = {policy: f"k8s-validation1-workload1-{policy}" for policy in ("qos", "priority")}
_SECONDS = 3600
_MEANS: Mapping[str, Mapping[str, float]] = {
    "qos": {"prod": 0.9993, "batch": 0.9098, "free": 0.4731},
    "priority": {"prod": 0.9994, "batch": 0.9994, "free": 0.4164},
}
"""Mean availability, computed from the logs without the ledger."""
_TOLERANCE = 0.002
_STARVED_CLASS, _STARVED = "free", 56
"""With `priority`, this many controllers of the class almost never run."""


def recorded(data: Path | None, _progress: Progress) -> Iterator[Figure]:
    """Evaluate each log with `wattpack services slo --from`."""
    for policy, name in LOGS.items():
        path = require(name, search_path(data)).path
        classes = _json_of(["services", "slo", "--from", str(path), "--seconds", str(_SECONDS), "--json"])[
            "classes"
        ]
        for promise, mean in _MEANS[policy].items():
            yield Figure(
                name=f"recorded_{policy}_{promise}_mean",
                value=classes[promise]["mean_availability"],
                unit="",
                at_least=mean - _TOLERANCE,
                at_most=mean + _TOLERANCE,
            )
        if policy == "priority":
            below, starved = _lowest(path)
            yield Figure(
                name=f"recorded_{policy}_{_STARVED_CLASS}_under_1_percent",
                value=below,
                unit="controllers",
                at_least=_STARVED,
                at_most=_STARVED,
            )
            # Some of them ran for a few minutes before the more important ones started.
            yield Figure(
                name=f"recorded_{policy}_{_STARVED_CLASS}_under_10_percent", value=starved, unit="controllers"
            )


def _lowest(path: Path) -> tuple[int, int]:
    """Count the controllers of a class that run less than 1 % and less than 10 % of the time."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        log = parse_log(lines)
    ledger = Ledger({_STARVED_CLASS: Promise(name=_STARVED_CLASS, availability=0.5, importance=1)})
    events: list[LifecycleEvent] = [
        each
        for each in log.events
        if class_of(each.service) == _STARVED_CLASS and each.at <= log.start + _SECONDS
    ]
    for event in events:
        ledger.set_service(event.service, _STARVED_CLASS, ServiceMode.INDEPENDENT)
        ledger.apply(event)
    found = [each.availability_ratio for each in ledger.standings(log.start + _SECONDS).services]
    below, starved = (sum(ratio < most for ratio in found) for most in (0.01, 0.1))
    return below, starved


def _json_of(arguments: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = main(arguments)
    if status:
        raise UserError(f"wattpack {' '.join(arguments)} failed")
    found: dict[str, dict[str, dict[str, float]]] = json.loads(printed.getvalue())
    return found
