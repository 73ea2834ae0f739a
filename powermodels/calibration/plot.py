"""Plots model and measurements: watts over CPU usage."""

from collections.abc import Sequence
from dataclasses import replace

from powermodels.common.interface import Model
from powermodels.models.samples import Sample

_WIDTH, _HEIGHT = 60, 16
_POINT, _CURVE = "·", "█"
_CURVE_POINTS = 200


def text_plot(samples: Sequence[Sample], model: Model) -> list[str]:
    """The plot for a terminal: dots are measurements, the line is the model."""
    # The other resources stay at their values in the idlest sample, so that the curve shows the CPU.
    idlest = min(samples, key=lambda sample: sample.load.cpu_ratio).load
    ratios = [index / _CURVE_POINTS for index in range(_CURVE_POINTS + 1)]
    curve = [(ratio, model.terms(replace(idlest, cpu_ratio=ratio)).watts) for ratio in ratios]
    points = [(sample.load.cpu_ratio, sample.watts) for sample in samples]
    top_watts = 1.05 * max(watts for _, watts in (*curve, *points))
    cells = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    for mark, places in ((_CURVE, curve), (_POINT, points)):
        for ratio, watts in places:
            column = min(_WIDTH - 1, int(max(0.0, ratio) * _WIDTH))
            row = min(_HEIGHT - 1, int(watts / top_watts * _HEIGHT))
            if mark == _CURVE or cells[row][column] == " ":
                cells[row][column] = mark
    lines = []
    for row in reversed(range(_HEIGHT)):
        label = f"{(row + 0.5) / _HEIGHT * top_watts:6.0f} W" if row % 5 == 0 else " " * 8
        lines.append(f"{label} │{''.join(cells[row]).rstrip()}")
    lines.append(f"{'':8} └{'─' * _WIDTH}")
    lines.append(f"{'':8}  0 % CPU{'':{_WIDTH - 16}}100 %")
    lines.append(f"{'':8}  {_POINT} measured   {_CURVE} model")
    return lines
