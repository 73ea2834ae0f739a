"""What everything in powermodels agrees on: the interface of meters and models, host facts, scaling."""
