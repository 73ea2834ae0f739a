"""What a collector can do besides its core: one folder per capability that a user could do without.

A feature is a vertical slice: its settings, routes, jobs, metrics, policies, guards and columns are in its
folder, and nothing imports it but the command and replay. It joins the collector through modules with fixed
names, which `collector.common.extensions` lists; the core collects these by the table below, and imports no
feature. To remove a feature, delete its folder and its line.
"""

FEATURES: tuple[str, ...] = (
    "sizing",
    "brownout",
    "cleanup",
    "elastic",
    "deployments",
    "prometheus",
    "swarm",
    "docker",
    "kubernetes",
    "genpack",
    "energy4cloud",
    "promises",
    "network",
)
