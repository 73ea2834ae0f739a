"""Detects that the node is short of a resource. Pure: no clock, no I/O.

Samples come in; alerts go out.
"""
