"""Models: load in, watts out, term by term.

What comes in: what is known of a host (`HostFacts`), or what was measured on it. What goes out: a `Model`, a
few numbers evaluated in plain Python. The prior (`prior`, on `published` machines) answers for every host.
Those fitted to a meter are kept as JSON (`stored`): linear and curve (`regression`), `table`, and `adaptive`,
which at work is a `tracker` with a `correction` and a stratified `memory`. Fitting itself is
`powermodels.fit`. A new kind is a module here, a line in `stored.Stored` and one in `fit.fitting.KINDS`.
"""

from powermodels.common.interface import HostFacts, Model
from powermodels.models.prior import PriorModel


def choose_model(facts: HostFacts) -> Model:
    """The best model there is for a host that was never metered."""
    return PriorModel.for_host(facts)
