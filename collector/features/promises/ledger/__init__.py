"""Promises of availability: the running and waiting times of instances, and how promises stand.

In: lifecycle events, and the promise of each service. Out: availability, slack and penalty of each service.
Pure: no clock, no I/O. Times are Unix times by the collector's clock.
"""
