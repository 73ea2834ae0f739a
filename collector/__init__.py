"""One per cluster: receives the agents' reports, stores and analyses them, answers requests, and acts.

`main` puts the parts together; docs/architecture.md lists them. Nothing here reads a host.
"""
