"""Admission: refuses nodes that would be short too often with a container.

In: a snapshot, a request, and how often nodes were short in the past. Out: per node, the probability that it
is short with the container, and whether that is accepted. Pure: the record of the past is a value of its own.
"""
