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
from replay.readers.lifecycles import class_of, parse_log
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
_STARVED_CLASS = "free"
_STARVED: Mapping[int, int] = {1: 31, 10: 57}
"""Controllers of the class that `priority` runs for less than these percent of the time, counted in the log
without the ledger. The study expects 56 close to 0 % and 40 close to 100 %, with 200 slots in use. Here 199
are: 57 controllers run for less than 7 % of the time, and 39 for more than 98 %."""


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
            found = _availability(path)
            for percent, controllers in _STARVED.items():
                yield Figure(
                    name=f"recorded_{policy}_{_STARVED_CLASS}_under_{percent}_percent",
                    value=sum(ratio < percent / 100 for ratio in found),
                    unit="controllers",
                    at_least=controllers,
                    at_most=controllers,
                )


def _availability(path: Path) -> list[float]:
    """The share of time in which each controller of the class runs."""
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
    return [each.availability_ratio for each in ledger.standings(log.start + _SECONDS).services]


def _json_of(arguments: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = main(arguments)
    if status:
        raise UserError(f"wattpack {' '.join(arguments)} failed")
    found: dict[str, dict[str, dict[str, float]]] = json.loads(printed.getvalue())
    return found
