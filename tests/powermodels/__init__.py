"""Tests of `powermodels`."""
