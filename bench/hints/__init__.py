"""Latency of hints in a large cluster, and the number of nodes that GenPack needs."""
