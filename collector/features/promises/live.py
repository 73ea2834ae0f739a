"""The ledger of a running collector."""

from collector.live.promises.tracker import PromiseTracker

LIVE = (PromiseTracker,)
