"""Conditions that every action must meet. A guard is pure, and returns the reason of its refusal or None."""

from collector.control.guards.context import GuardContext
from collector.control.guards.table import GUARDS, first_refusal

__all__ = ["GUARDS", "GuardContext", "first_refusal"]
