"""Accuracy of the power models, and the page that reports it."""
