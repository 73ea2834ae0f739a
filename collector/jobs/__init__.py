"""Periodic work beside the event loop: analysis and retention."""
