"""The will: when a plan is made, what must hold before it is carried out, and what became of it on record.

In: alerts, the clock, snapshots, policies. Out: orders to a driver, and a record of every decision with its
inputs, reasons, outcome and effect. Nothing is carried out until the settings say so.
"""
