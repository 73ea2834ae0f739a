"""Conditions that every action must meet. A guard is pure, and returns the reason of its refusal or None."""

from collector.act.guards.context import GuardContext
from collector.act.guards.table import GUARDS, first_refusal

__all__ = ["GUARDS", "GuardContext", "first_refusal"]
