"""The key of a report."""

from dataclasses import dataclass
from typing import Self

from wire.messages import Report


@dataclass(frozen=True, slots=True)
class ReportKey:
    """A report is known by its node, the run of the agent, and its number in that run."""

    node: str
    boot: str
    sequence: int

    @classmethod
    def of(cls, report: Report) -> Self:
        return cls(report.node, report.boot, report.sequence)
