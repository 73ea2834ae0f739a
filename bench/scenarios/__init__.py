"""The scenarios of `scenarios/`, and the page that reports their figures."""
