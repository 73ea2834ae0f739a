"""Client of the collector's API."""
