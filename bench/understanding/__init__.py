"""Analysis of a whole cluster: its duration and its accuracy."""
