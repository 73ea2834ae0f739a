"""Applications: their services, the bound of the round-trip times between these, and their placement."""
