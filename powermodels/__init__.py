"""Watts from numbers: meters, models and attribution.

What comes in: a host's description, its load per resource, and meter files under a root that the
caller gives. What goes out: watts with a source and an expected error, split over idle, system and
containers so that they add up. Nothing here knows of HTTP, Docker or cgroups.
"""
