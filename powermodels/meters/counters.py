"""Mean power from two readings of an energy counter. Pure."""

from dataclasses import dataclass

# Twice the power of the largest server CPUs today; more is an error of the counter.
MAX_DOMAIN_WATTS = 1000.0

# If the range of a counter is unknown: the smallest in use, 65 kJ, wraps after this time at full power.
_LONGEST_SECONDS_WITHOUT_RANGE = 60.0


@dataclass(frozen=True, slots=True)
class CounterReading:
    """A counter at one instant."""

    monotonic_seconds: float
    energy_uj: int


def watts_between(earlier: CounterReading, later: CounterReading, range_uj: int | None) -> float | None:
    """Mean watts between two readings of one counter; None if the difference is not valid."""
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
    # A reset counter looks like a wrap over nearly its whole range: implausibly many watts.
    watts = energy_uj / 1e6 / seconds
    return watts if 0 <= watts <= MAX_DOMAIN_WATTS else None


def parse_micro(text: str) -> int:
    """A count of microwatts or microjoules; raises ValueError beyond 64 bits, an error of the driver."""
    count = int(text)
    if abs(count) >= _BEYOND:
        raise ValueError("the number has more than 64 bits")
    return count


_BEYOND = 2**63
