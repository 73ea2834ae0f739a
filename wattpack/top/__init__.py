"""`wattpack top`: hosts and containers, live in a terminal.

A source (`here`: this host itself; `there`: a collector) gives one `Scene` after the other. `screen` draws a
scene, as a `View` of it was chosen, into lines of a given width and height; both are pure. `terminal` is the
thin rest: it hands keys to the view and lines to curses.
"""
