"""From a TOML file, the environment and flags to one checked configuration."""
