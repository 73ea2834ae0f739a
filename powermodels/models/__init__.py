"""Models: load in, watts out, term by term.

What comes in: what is known of a host (`HostFacts`), later what was measured on it. What goes out: a
`Model`, a few numbers evaluated in plain Python. Each is one module here and one line in `MODELS`.
"""

from collections.abc import Callable

from powermodels.interface import HostFacts, Model
from powermodels.models.prior import PriorModel

# From the best to the last resort, the prior, which answers for every host.
MODELS: tuple[Callable[[HostFacts], Model | None], ...] = (PriorModel.for_host,)


def choose_model(facts: HostFacts) -> Model:
    """The best model there is for a host."""
    return next(model for make in MODELS if (model := make(facts)) is not None)
