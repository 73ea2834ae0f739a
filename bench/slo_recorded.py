"""The ledger on the authors' recorded Kubernetes runs: mean availability per class in the first hour."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path

from bench.frame import Figure, Progress
from wattpack.cli import main
from wattpack.datasets.search import require, search_path
from wire.errors import UserError

LOGS = {policy: f"k8s-validation1-workload1-{policy}" for policy in ("qos", "priority")}
_SECONDS = 3600
_MEANS: Mapping[str, Mapping[str, float]] = {
    "qos": {"prod": 0.9993, "batch": 0.9098, "free": 0.4731},
    "priority": {"prod": 0.9994, "batch": 0.9994, "free": 0.4164},
}
"""As computed from the logs apart from the ledger."""
_TOLERANCE = 0.002


def recorded(data: Path | None, _progress: Progress) -> Iterator[Figure]:
    """Feed each log as `wattpack slo --from` does."""
    for policy, name in LOGS.items():
        path = require(name, search_path(data)).path
        classes = _json_of(["slo", "--from", str(path), "--seconds", str(_SECONDS), "--json"])["classes"]
        for promise, mean in _MEANS[policy].items():
            yield Figure(
                name=f"recorded_{policy}_{promise}_mean",
                value=classes[promise]["mean_availability"],
                unit="",
                at_least=mean - _TOLERANCE,
                at_most=mean + _TOLERANCE,
            )


def _json_of(arguments: list[str]) -> dict[str, dict[str, dict[str, float]]]:
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = main(arguments)
    if status:
        raise UserError(f"wattpack {' '.join(arguments)} failed")
    found: dict[str, dict[str, dict[str, float]]] = json.loads(printed.getvalue())
    return found
