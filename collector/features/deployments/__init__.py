"""Deployments: the nodes on which new services start, and the settings to create them with."""
