"""The reports of one node, merged: the run of its agent, and its alerts. Pure."""
