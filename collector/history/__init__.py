"""What was: every report that was taken in, kept for as long as the configuration says.

`interface` says what a history is; everything else in the collector knows only that. `sqlite` is the
one that needs nothing installed: it owns two threads (`lanes`), so that no disk ever stalls the event loop.
Under it, `opening` gets hold of the file or says in one sentence why not, `schema` is its tables, `names`
gives out the small numbers in them, `rows` turns reports into rows and back; `writing` and `reading` are
plain synchronous SQL, and `means` is the one query of some size: what held in a window, weighted by time.

Samples last for hours, what they add up to for months: `condensing` reads what a node said since it last
looked, `rolling` says what the rollups of five minutes and of an hour gain by it, out of `stretches` of
time in which one thing held. `series` and `energy` tell of them, and `forgetting` drops what is old, or too
much.
"""
