"""The cluster now, from the reports of its nodes: registry, columns, and how a snapshot is taken."""
