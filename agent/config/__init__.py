"""The agent's settings: every key with its default, its bounds and its meaning.

One module per topic: `host`, `bottleneck`, `reporting`, `delivery`, `mesh`, `probe`. The values are validated
on creation; only the command reads files.
"""

from typing import Annotated

from msgspec import Meta

from agent.config.bottleneck import BottleneckConfig
from agent.config.delivery import DeliveryConfig, HttpConfig, SpoolConfig
from agent.config.host import DockerConfig, HostConfig, PowerConfig, RootsConfig, SamplingConfig
from agent.config.mesh import MeshConfig
from agent.config.probe import ProbeConfig
from agent.config.reporting import ReportingConfig
from agent.config.section import Section

__all__ = [
    "AgentConfig",
    "BottleneckConfig",
    "DeliveryConfig",
    "DockerConfig",
    "HostConfig",
    "HttpConfig",
    "MeshConfig",
    "PowerConfig",
    "ProbeConfig",
    "ReportingConfig",
    "RootsConfig",
    "SamplingConfig",
    "SpoolConfig",
]


class AgentConfig(Section, frozen=True):
    """The agent's file, `agent.toml`."""

    node: Annotated[str, Meta(max_length=253, description="Name of this node. Empty is the host name.")] = ""
    sampling: SamplingConfig = SamplingConfig()
    host: HostConfig = HostConfig()
    reporting: ReportingConfig = ReportingConfig()
    bottleneck: BottleneckConfig = BottleneckConfig()
    power: PowerConfig = PowerConfig()
    roots: RootsConfig = RootsConfig()
    docker: DockerConfig = DockerConfig()
    http: HttpConfig = HttpConfig()
    collector: DeliveryConfig = DeliveryConfig()
    spool: SpoolConfig = SpoolConfig()
    mesh: MeshConfig = MeshConfig()
    probe: ProbeConfig = ProbeConfig()
