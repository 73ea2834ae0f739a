"""Beloglazov's consolidation: relieve overloaded hosts, empty and switch off underused ones."""
