"""One module per subcommand, named after it; `wattpack.cli` has the table.

Each offers `add_arguments(parser)` and `run(arguments) -> exit status`.
"""
