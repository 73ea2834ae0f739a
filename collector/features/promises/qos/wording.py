"""The reasons of starts and stops."""

from math import inf

from collector.common.text import counted
from collector.features.promises.ledger.promises import Promise


def describe_slack(slack_seconds: float) -> str:
    """Describe how a promise stands."""
    if slack_seconds == inf:
        return "can wait without limit"
    if slack_seconds < 0:
        return f"is {-slack_seconds:.0f} s behind its promise"
    return f"can wait {slack_seconds:.0f} s before its promise breaks"


def start_reasons(promise: Promise, slack_seconds: float, node: str, victims: int) -> tuple[str, ...]:
    """Return why a waiting container starts, and why there."""
    standing = f"it {describe_slack(slack_seconds)} ({promise.name}, {promise.availability:.4g})"
    if victims:
        return (
            standing,
            f"{counted(victims, 'container')} on {node} {'is' if victims == 1 else 'are'} stopped for it",
        )
    return standing, f"{node} has room for it"


def stop_reason(rule: int, victim: str, beneficiary: str, slack_seconds: float) -> str:
    """Return why a container is stopped for another one. `victim` says how it stands itself."""
    urgent = f"{beneficiary} {describe_slack(slack_seconds)}"
    return {
        1: f"rule 1: it {victim}, longer than the margin; {urgent}",
        2: f"rule 2: it {victim}; {urgent}, and is more important",
        3: f"rule 3: it {victim}; {urgent}, and is equally important",
    }[rule]
