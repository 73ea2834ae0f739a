"""The `wattpack` command.

Each subcommand is a module that is imported only when it runs. Configuration files, environment and flags
are read here, so that `agent` and `collector` get checked settings.
"""
