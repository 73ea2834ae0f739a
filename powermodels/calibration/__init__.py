"""Calibration: run a host through known loads, record its meter, and fit a model.

Input: a meter, and a function that reads the host's load. Output: a recording, which `powermodels.fit` fits a
model to in a separate process, and a plot of both.

- `plan`: the loads and their duration.    - `burner`: creates one kind of load, in a child process.
- `drive`: runs the plan.                  - `recording`: the measurements, as a file.
- `plot`: model and measurements as a plot for the terminal and as SVG.
"""
