"""Power of a host: meters, models and attribution.

Input: a description of the host, its load per resource, and meter files below a root that the caller gives.
Output: watts with their source and expected error, split into idle, system and containers. Nothing here
depends on HTTP, Docker or cgroups.
"""
