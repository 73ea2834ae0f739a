"""The parts of a snapshot that are stored with it."""

from collector.features.network.applications.images import ImageTable
from collector.features.network.applications.table import Applications
from collector.features.network.mesh.delays import Delays
from collector.snapshot.parts import SnapshotPart

PARTS: tuple[type[SnapshotPart], ...] = (Delays, Applications, ImageTable)
