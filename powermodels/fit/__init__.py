"""Fitting: metered samples in, a model of a few numbers out. Uses numpy and scipy.

Input: a `FitRequest` (`powermodels.models.samples`) from an agent, a calibration or a recording
(`recording`). Output: a fitted model (`powermodels.models.stored`). The agent never imports
this package: it starts `python -m powermodels.fit` as a child, which ends by itself.
"""
