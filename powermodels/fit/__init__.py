"""Fitting: metered samples in, a model of a few numbers out. Uses numpy and scipy.

What comes in: a `FitRequest` (`powermodels.models.samples`), made by an agent, a calibration or out of a
recording (`recording`). What goes out: a fitted model (`powermodels.models.stored`). The agent never imports
this package: it starts `python -m powermodels.fit` as a child, which ends by itself.
"""
