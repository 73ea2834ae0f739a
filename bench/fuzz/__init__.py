"""Invalid requests to the collector: mutated reports, and schemathesis on the API."""
