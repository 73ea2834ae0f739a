"""What is said to the collector, and when. Pure: no clock, no I/O.

`speaker` is given the picture of each tick and decides what of it is news: `window` and `track` tell
what moved, `happenings` what came and went, `usage` keeps every sample for the next heartbeat, and
`wording` puts it all into the messages of `wire`.
"""
