"""Metrics of the mesh."""

from collections.abc import Iterator

from prometheus_client import Metric

from collector.features.network.mesh.mesh import Mesh
from collector.serve.api.control import Api
from wire.metrics import MetricSpec, metric_families

METRICS: tuple[MetricSpec[Mesh], ...] = (
    MetricSpec(
        name="wattpack_collector_mesh_nodes",
        help="Nodes of the mesh, which measure the round-trip times between them.",
        value=lambda mesh: len(mesh.plan.members),
    ),
    MetricSpec(
        name="wattpack_collector_mesh_pairs",
        help="Pairs of nodes whose round-trip time is measured.",
        value=lambda mesh: len(mesh.plan.medians),
    ),
    MetricSpec(
        name="wattpack_collector_mesh_error_ratio",
        help="90th percentile of the relative error of estimated round-trip times.",
        value=lambda mesh: mesh.plan.error_ratio,
    ),
)


def collect(api: Api) -> Iterator[Metric]:
    """The metrics of the mesh, if it is enabled."""
    mesh = api.registry.part(Mesh)
    yield from metric_families(METRICS, [mesh] if mesh.is_enabled else [])
