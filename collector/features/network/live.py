"""What the feature keeps about the cluster now."""

from collector.features.network.applications.claims import ApplicationBuilder
from collector.features.network.applications.images import NodeImages
from collector.features.network.mesh.mesh import Mesh

LIVE = (Mesh, ApplicationBuilder, NodeImages)
