"""Splits the power of a node into idle, system and containers, and counts energy."""
