"""Sizes on recorded workloads: learned on the first half by the collector's code, scored on the second."""
