"""The table model: measured points of CPU usage and watts, with straight lines between them."""

from powermodels.common.interface import Load, Terms
from powermodels.models.basis import cpu
from powermodels.models.fitted import FittedModel
from powermodels.models.points import Point, check_rising, interpolate


class TableModel(FittedModel, frozen=True, kw_only=True, tag="table"):
    """Points with increasing load and non-decreasing watts; beyond them, the nearest point."""

    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("a table needs at least one point")
        check_rising(self.points)

    def terms(self, load: Load) -> Terms:
        idle_watts = self.points[0].watts
        return self.bounded(Terms(idle_watts, max(0.0, interpolate(self.points, cpu(load)) - idle_watts)))
