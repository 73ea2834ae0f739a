"""Hostile nodes, faults, and pairs of collectors: honest nodes must lose nothing."""
