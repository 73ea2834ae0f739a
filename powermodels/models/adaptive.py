"""The adaptive model as it is stored: a curve, its last correction, and the time of the last reading."""

from datetime import datetime

from powermodels.common.interface import Load, Terms
from powermodels.models.basis import bounded
from powermodels.models.correction import Correction
from powermodels.models.fitted import FittedModel, Training
from powermodels.models.regression import CurveModel


def corrected_terms(curve: CurveModel, correction: Correction, training: Training, load: Load) -> Terms:
    """The terms of the curve, corrected and limited to the range of the training.

    The offset and the correction at no load belong to idle power, the rest to the CPU. It is not negative if
    the correction keeps the curve increasing.
    """
    free = curve.free_terms(load)
    at_idle_watts = correction.nodes_watts[0]
    local_watts = correction.local_watts(curve.root(load)) - at_idle_watts
    terms = Terms(
        max(0.0, free.idle_watts + correction.level_watts + at_idle_watts),
        max(0.0, (1 + correction.gain) * free.cpu_watts + local_watts),
        free.memory_watts,
        free.disk_watts,
        free.network_watts,
    )
    return bounded(terms, training.floor_watts, training.ceiling_watts)


class AdaptiveModel(FittedModel, frozen=True, kw_only=True, tag="adaptive"):
    """The state of a tracker (`powermodels.learning.tracker`), to save and evaluate."""

    curve: CurveModel
    correction: Correction
    """Keeps the curve increasing."""
    read: datetime
    """Time of the last meter reading."""

    def terms(self, load: Load) -> Terms:
        return corrected_terms(self.curve, self.correction, self.origin.training, load)

    def describe(self) -> str:
        return f"{super().describe()}, by a meter last read on {self.read:%Y-%m-%d %H:%M}"
