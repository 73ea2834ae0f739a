"""What a node may report: its limits, its claims about others, and what it has used so far."""
