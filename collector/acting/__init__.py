"""The will: when a plan is made, what must hold before it is carried out, and what became of it on record.

In: alerts, the clock, snapshots, policies. Out: orders to a driver, and a record of every decision with its
inputs, reasons, outcome and effect. Nothing is carried out until the settings say so.

`records` are the values on record, `keeping` packs a snapshot so that a decision can be made again from it.
`guards` say no, each in a sentence; `windows` tell when acting is allowed, `lease` that no other collector
acts. `journal` writes every step down before and after it is done; `knowing` tells the board what the
orchestrator knows, `verifying` tells from the agents' own data whether something was done. `choice` has the
policy. An `actor` is made of what it knows (`situation`), how it decides (`deciding`) and what it does
(`carrying_out`); `following` sees what came of it, `recovery` makes out what a collector that was killed left
behind; `loop` gives them their rhythm, `routes` serves the record.
"""
