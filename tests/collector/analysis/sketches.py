from collector.analysis.histograms import BIN_BITS, Packed, stack
from wire.resources import RESOURCES
from wire.sketch import LOWEST_BIN, Sketch


def sketches(packed: Packed) -> tuple[Sketch, ...]:
    """A packed histogram as one sketch per resource, as agents report it."""
    keys, counts, _ = stack([packed], [0])
    found = tuple(Sketch() for _ in RESOURCES)
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        sketch, index = found[key >> BIN_BITS], key % (1 << BIN_BITS) - (1 << BIN_BITS - 1)
        if index < LOWEST_BIN:
            sketch.zeros = count
        else:
            sketch.bins[index] = count
    return found
