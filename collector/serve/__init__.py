"""What clients see: the API, the page and the metrics, and where reports of agents arrive."""
