"""Evaluation: the errors of models and of simple baselines on recordings of metered machines.

Input: recordings (`powermodels.fit.recording`), a protocol and a model's name. Output: errors
per workload, per machine and over all, as plain numbers. The models are those that agents run, through the
same code. A model is one line in `contenders.MODELS`, a baseline one in `contenders.BASELINES`.
"""
