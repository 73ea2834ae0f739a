"""The adaptive model at rest: a curve, what the meter last said on top of it, and when that was."""

from datetime import datetime

from powermodels.common.interface import Load, Terms
from powermodels.models.basis import bounded
from powermodels.models.correction import Correction
from powermodels.models.fitted import FittedModel, Training
from powermodels.models.regression import CurveModel


def corrected_terms(curve: CurveModel, correction: Correction, training: Training, load: Load) -> Terms:
    """The curve's terms, corrected and held within what was seen.

    The level and what is corrected at no load belong to idle power. The rest is the CPU's: it is never
    negative, as long as the correction leaves the curve rising.
    """
    free = curve.free_terms(load)
    at_idle_watts = correction.nodes_watts[0]
    terms = Terms(
        max(0.0, free.idle_watts + correction.level_watts + at_idle_watts),
        max(0.0, free.cpu_watts + correction.local_watts(curve.root(load)) - at_idle_watts),
        free.memory_watts,
        free.disk_watts,
        free.network_watts,
    )
    return bounded(terms, training.floor_watts, training.ceiling_watts)


class AdaptiveModel(FittedModel, frozen=True, kw_only=True, tag="adaptive"):
    """What a tracker (`powermodels.learning.tracker`) has learned, to be kept, sent and evaluated."""

    curve: CurveModel
    correction: Correction
    """Already such that the curve keeps rising."""
    read: datetime
    """When the meter was last there."""

    def terms(self, load: Load) -> Terms:
        return corrected_terms(self.curve, self.correction, self.origin.training, load)

    def describe(self) -> str:
        return f"{super().describe()}, by a meter last read on {self.read:%Y-%m-%d %H:%M}"
