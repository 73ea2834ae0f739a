"""The status of a control loop as text."""

from collections.abc import Mapping
from typing import Any

from wattpack.client.collector import moment


def status_text(status: Mapping[str, Any]) -> str:
    """The status of the control loop in one sentence."""
    if pause := status["pause"]:
        until = "until 'wattpack resume'" if pause["until"] is None else f"until {moment(pause['until'])} UTC"
        reason = f" ({pause['why']})" if pause["why"] else ""
        return f"Paused {until}{reason}. Steps in progress finish, no new step starts."
    if status["dry_run"]:
        return f"Dry run with the driver {status['driver']}: plans are recorded, not carried out."
    if status["lease_holder"]:
        return f"Standby: the collector {status['lease_holder']} holds the lease and carries out plans."
    return f"Active: plans are carried out by the driver {status['driver']}."
