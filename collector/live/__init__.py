"""The cluster now: registry, columns, and how a snapshot is taken."""
