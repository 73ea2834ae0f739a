"""The words both sides speak.

What lives here: the four resources and their units, the messages an agent sends and a collector
takes in, the way an address, a metric and an error are written. What comes in and goes out are
values and bytes; nothing here reads a host, decides, or keeps state. Every other package may import
this one; this one imports none of them.
"""
