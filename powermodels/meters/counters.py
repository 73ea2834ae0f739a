"""Energy counters: what two readings of one say about the power between them. Pure."""

from dataclasses import dataclass

# Twice what the largest server CPUs are made for today; more is a counter's fault.
MAX_DOMAIN_WATTS = 1000.0

# Where a counter's range is unknown: the smallest in use, 65 kJ, would wrap after this long at full power.
_LONGEST_SECONDS_WITHOUT_RANGE = 60.0


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter as of one instant."""

    monotonic_seconds: float
    energy_uj: int


def watts_between(earlier: Counted, later: Counted, range_uj: int | None) -> float | None:
    """Mean watts between two readings of one counter; None where the difference cannot be trusted."""
    seconds = later.monotonic_seconds - earlier.monotonic_seconds
    longest_seconds = (
        _LONGEST_SECONDS_WITHOUT_RANGE if range_uj is None else range_uj / 1e6 / MAX_DOMAIN_WATTS
    )
    if not 0 < seconds <= longest_seconds:
        return None
    energy_uj = later.energy_uj - earlier.energy_uj
    if energy_uj < 0:
        if range_uj is None:
            return None
        energy_uj += range_uj
    # A counter that was reset looks like a wrap with nearly its whole range in between: far too many watts.
    watts = energy_uj / 1e6 / seconds
    return watts if 0 <= watts <= MAX_DOMAIN_WATTS else None
