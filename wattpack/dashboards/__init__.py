"""Grafana dashboards as code: `grafana` makes the JSON, `catalogue` is the table of dashboards and panels."""
