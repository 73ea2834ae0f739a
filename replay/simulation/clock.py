"""The simulated clock: seconds of a trace as Unix time."""

BEGIN_SECONDS = 1_699_920_000.0
"""Unix time at which traces begin: a midnight, at which slots of all lengths begin too."""


def unix(seconds: float) -> float:
    """A time of the trace, as agents and collector see it."""
    return BEGIN_SECONDS + seconds


def seconds_of(unix_seconds: float) -> float:
    """A Unix time of agents and collector, as a time of the trace."""
    return unix_seconds - BEGIN_SECONDS
