"""Response times of the containers on this host, measured by HTTP requests to those with a label.

In: containers with the label `wattpack.probe`, as the engine lists them. Out: a histogram of response times
per container, in the next report. Requests go to addresses of the host's own containers only.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.features import AgentParts, Feature, StartedFeature
from agent.features.probing.settings import ProbeConfig
from agent.reporting.reporter import Addition
from wire.errors import UserError
from wire.messages import ContainerProbe


@asynccontextmanager
async def _start(parts: AgentParts) -> AsyncIterator[StartedFeature]:
    if parts.names is None:
        raise UserError(
            "probe.enabled needs docker.socket, for the addresses of containers: set both, or neither"
        )
    from agent.features.probing.prober import ContainerProber  # noqa: PLC0415 - takes memory, as the mesh does

    prober = ContainerProber(
        parts.names.running, Path(parts.config.docker.socket), parts.config.section(ProbeConfig)
    )
    yield StartedFeature(run=prober.run, take_addition=lambda: _addition(prober.take()))


def _addition(probes: tuple[ContainerProbe, ...]) -> Addition | None:
    """Response times and CPU time of a container belong together: it is reported with them."""
    return Addition({"probes": probes}, frozenset(each.container for each in probes)) if probes else None


FEATURE = Feature(key="probe", settings=ProbeConfig, start=_start)
