"""Splits a node's watts among idle, system and containers, and keeps energy accounts."""
