"""The command: one front door for people.

Each subcommand is a module of its own, imported only when it is called; what it does lives in
`agent` and `collector`. Reading configuration happens here, so that neither side has to know where
its settings came from.
"""
