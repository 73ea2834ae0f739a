"""The ledger of promises in a running collector: its events from reports and orchestrators, its columns."""
