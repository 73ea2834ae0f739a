"""Shared by all of powermodels: the interfaces of meters and models, and host facts."""
