"""Placement: question, ranking, reservations, explanation."""
