"""Random clusters with applications, round-trip times and images."""

from collections.abc import Mapping, Sequence

import numpy as np

from collector.common.arrays import Floats
from collector.features.network.applications.images import ImageTable
from collector.features.network.applications.table import Applications
from collector.features.network.mesh.delays import Delays
from collector.snapshot.tables import NOWHERE, Snapshot
from tests.collector.decide.policies.clusters import Cluster

BOUND = 0.085
REGIONS = ("us", "eu-west", "eu-north", "na")
_MILLISECONDS = {
    ("us", "eu-west"): 100.0,
    ("us", "eu-north"): 135.0,
    ("us", "na"): 32.0,
    ("eu-west", "eu-north"): 33.0,
    ("eu-west", "na"): 82.0,
    ("eu-north", "na"): 115.0,
}


def between_regions(one: str, other: str) -> float:
    """The paper's round-trip times in seconds."""
    if one == other:
        return 0.001
    return _MILLISECONDS.get((one, other), _MILLISECONDS.get((other, one), np.nan)) / 1e3


def delays_of(regions: Sequence[str]) -> Delays:
    """Measured delays between nodes in some regions."""
    seconds = np.array([[between_regions(one, other) for other in regions] for one in regions])
    count = len(regions)
    return Delays.of_matrix(seconds.reshape(count, count))


def delays_in(snapshot: Snapshot) -> Delays:
    """The round-trip times of a snapshot that has them."""
    delays = snapshot.part(Delays)
    assert delays is not None
    return delays


def in_applications(  # noqa: PLR0913 - what belongs together, and where it is
    snapshot: Snapshot,
    services: Mapping[str, Sequence[str]],
    regions: Sequence[str],
    *,
    bound: float = BOUND,
    links: Sequence[tuple[str, str]] = (),
    images: Sequence[Sequence[str]] = (),
) -> Snapshot:
    """The same cluster with the services of each application, and a region for each node."""
    names, index = tuple(sorted(services)), snapshot.services.index
    of_service = np.full(len(snapshot.services.names), NOWHERE, dtype=np.intp)
    for row, name in enumerate(names):
        of_service[[index[each] for each in services[name] if each in index]] = row
    pairs = frozenset((index[one], index[other]) for one, other in links)
    applications = Applications(
        names=names,
        delay_max=np.full(len(names), bound),
        of_service=of_service,
        links={0: pairs} if links else {},
    )
    found = snapshot.with_part(delays_of(regions)).with_part(applications)
    return found.with_part(ImageTable.of_nodes(images)) if images else found


def random_applications(cluster: Cluster, seed: int) -> Snapshot:
    """A cluster whose services belong to an application or two, some round-trip times unknown."""
    snapshot, draw = cluster.snapshot(), np.random.default_rng([seed, 7])
    count = len(snapshot.nodes.names)
    regions = [str(each) for each in draw.choice(REGIONS, size=count)]
    services = (
        {"one": ["api", "db"], "two": ["cache"]} if draw.random() < 0.5 else {"one": ["api", "batch", "db"]}
    )
    links = [("api", "db")] if draw.random() < 0.3 else []
    snapshot = in_applications(
        snapshot, services, regions, bound=float(draw.choice([0.04, 0.085, 0.12])), links=links
    )
    seconds: Floats = delays_in(snapshot).among(np.arange(count))
    if draw.random() < 0.3:
        lost = draw.random((count, count)) < 0.1
        seconds[lost | lost.T] = np.nan
    return snapshot.with_part(Delays.of_matrix(seconds))
