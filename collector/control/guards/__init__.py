"""Conditions for every action. A guard is pure, and returns the reason of a refusal or None."""

from collector.control.guards.context import GuardContext
from collector.control.guards.table import GUARDS, first_refusal

__all__ = ["GUARDS", "GuardContext", "first_refusal"]
