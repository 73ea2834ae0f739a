"""What whoever decides sees: the cluster as it is, with what was decided lately."""

from collector.core.parts import Core
from collector.snapshot.tables import Snapshot


async def seen(core: Core) -> Snapshot:
    """The newest snapshot that can be had without waiting long, with placements that it does not show yet."""
    now, placement = core.clock(), core.config.placement
    snapshot = await core.snapshots.snapshot(
        core.registry.tables,
        now,
        fresh_seconds=placement.snapshot_seconds,
        oldest_seconds=placement.oldest_seconds,
    )
    return core.reservations.fold(snapshot, now)
