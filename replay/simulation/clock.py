"""The simulated clock: seconds of a trace as Unix time."""

BEGIN_SECONDS = 1_699_920_000.0
"""Unix time at which traces begin: a midnight, at which buckets of all lengths begin."""


def unix(seconds: float) -> float:
    """The Unix time of a time of the trace."""
    return BEGIN_SECONDS + seconds


def seconds_of(unix_seconds: float) -> float:
    """The time of the trace of a Unix time."""
    return unix_seconds - BEGIN_SECONDS
