"""Placement of containers and applications: questions, rankings with reasons, reservations, plans."""
