"""What the reports of one node add up to: the agent's run and its alerts. Pure."""
