"""Periodic jobs: analysis, sizing, retention, and storing state that must survive a restart."""
