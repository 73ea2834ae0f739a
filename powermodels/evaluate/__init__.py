"""Evaluation: how far off each model is on recordings of metered machines, beside simpler ways to guess.

What comes in: recordings (`powermodels.fit.recording`), a protocol and a model's name. What goes out: errors
per workload, per machine and over all, as plain numbers. The models are those that agents run, through the
same code. A model is one line in `contenders.MODELS`, a baseline one in `contenders.BASELINES`.
"""
