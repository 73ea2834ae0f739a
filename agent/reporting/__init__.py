"""Decides what is reported to the collector, and when. Pure: no clock, no I/O.

Samples and alerts come in; a `Report`, or nothing, goes out.
"""
