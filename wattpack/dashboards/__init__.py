"""Grafana dashboards as code: `catalogue` defines dashboards and panels, `grafana` generates their JSON."""
