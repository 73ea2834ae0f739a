"""The node examines itself. Pure: no clock, no I/O.

`signs` is the table of what tells that a resource runs short; `bottleneck` believes a sign that
lasts, and makes one alert of it, with its beginning, its evidence and its end.
"""
