"""Throughput, latency and durability of the collector's ingest."""
