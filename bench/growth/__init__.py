"""How costs grow with the cluster: measured at several sizes, and the page docs/scaling.md."""
