"""Collectors that are killed, or stop, at any change of an action, on the engines of the lab."""
