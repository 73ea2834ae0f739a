"""Where to place containers and what to move: questions, rankings with reasons, reservations, plans.

The policies themselves are in `policies/`, and are pure.
"""
