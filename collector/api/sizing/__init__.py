"""Recommended sizes of services."""
