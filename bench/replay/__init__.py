"""Replay, compared with CloudSim and with a live collector."""
