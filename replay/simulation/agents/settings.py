"""How simulated agents sample and report."""

from dataclasses import dataclass
from math import ceil

import msgspec

from agent.config import BottleneckConfig, ReportingConfig, SamplingConfig

DEFAULT_INTERVAL_SECONDS = SamplingConfig().interval_seconds
"""Time after which a live agent notices that a container started or ended."""
BEACON_SECONDS = ReportingConfig().beacon_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How agents sample and report."""

    sample_seconds: float
    reporting: ReportingConfig
    bottleneck: BottleneckConfig

    @classmethod
    def sampling_every(cls, seconds: float, *, every_window: bool = False) -> "AgentSettings":
        """The defaults, adapted to this interval; with `every_window`, unchanged windows are reported too."""
        reporting, bottleneck = ReportingConfig(), BottleneckConfig()
        return cls(
            sample_seconds=seconds,
            reporting=msgspec.structs.replace(
                reporting,
                threshold_points=0.0 if every_window else reporting.threshold_points,
            ),
            bottleneck=msgspec.structs.replace(
                bottleneck, samples=max(1, ceil(bottleneck.samples * DEFAULT_INTERVAL_SECONDS / seconds))
            ),
        )
