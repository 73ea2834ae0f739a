"""The status of a control loop as text."""

from collections.abc import Mapping
from typing import Any

from wattpack.output.text import time_text


def status_text(status: Mapping[str, Any]) -> str:
    """The status of the control loop in one sentence."""
    if pause := status["pause"]:
        until = "'wattpack resume'" if pause["until"] is None else f"{time_text(pause['until'])} UTC"
        reason = f" ({pause['why']})" if pause["why"] else ""
        return f"Paused until {until}{reason}. Steps in progress finish, no new step starts."
    if status["dry_run"]:
        return f"Dry run with the driver {status['driver']}: plans are recorded, not carried out."
    if status["lease_holder"]:
        return f"Standby: the collector {status['lease_holder']} holds the lease and carries out plans."
    return f"Active: the driver {status['driver']} carries out plans."
