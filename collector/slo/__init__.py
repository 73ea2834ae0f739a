"""Promises of availability: what was promised to a service, and how it stands.

Pure: no clock, no I/O. Times are Unix times by the collector's clock.
"""
