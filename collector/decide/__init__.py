"""Where to place containers and what to move: questions, rankings with reasons, reservations, plans.

`why` tells why a plan leaves something as it is. The policies themselves are in `policies/`, and are pure.
"""
