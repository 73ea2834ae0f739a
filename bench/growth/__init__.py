"""How costs grow with the cluster: measured at several sizes, and a page about it."""
