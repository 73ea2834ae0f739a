"""GenPack: generations of nodes, and containers packed by what they need."""
