"""Calibration: run a host through known loads, record its meter, and fit a model.

Input: a meter, and a function that reads the host's load. Output: a recording, which `powermodels.fit` fits a
model to in a separate process, and a plot of both for the terminal.

- `drive`: plans loads and runs them.      - `burner`: creates one kind of load, in a child process.
- `recording`: the measurements, as a file.
- `plot`: model and measurements as a plot for the terminal.
"""
