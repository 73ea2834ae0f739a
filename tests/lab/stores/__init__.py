"""Stores of metrics: Prometheus and VictoriaMetrics."""
