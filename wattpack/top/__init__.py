"""`wattpack top`: nodes and containers, live in a terminal.

A source (`local`: this host; `scene`: a collector) yields one `Scene` after the other. `screen` draws a
scene in a `View` into lines of a given width and height; both are pure. `terminal` passes keys to the view
and lines to curses.
"""
