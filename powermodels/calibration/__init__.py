"""Calibration: drive a host through its loads, write down what its meter says, and have a model fitted to it.

What comes in: a meter, and a function that looks at the host's load. What goes out: a recording, which a fit
(`powermodels.fit`, in a process of its own) makes a model of, and a picture of both.

- `plan`: which loads, and for how long.   - `burner`: makes one kind of load, as a child that always ends.
- `drive`: goes through the plan.          - `recording`: what was measured, as a file.
- `plot`: model and measurements as a picture in the terminal and as SVG.
"""
