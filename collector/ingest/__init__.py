"""Reports in: pushed by agents, or pulled from a Prometheus that scrapes them. Parsed once."""
