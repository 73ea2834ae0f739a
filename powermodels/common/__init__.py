"""Shared by all of powermodels: the interfaces of meters and models, host facts, scaling."""
