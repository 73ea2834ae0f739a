"""Docker engines: what the drivers `docker` and `swarm` share.

`client` sends requests, `models` parses responses and `limits` computes changes of limits, both pure; `cuts`
carries them out; `engines` connects to those in the settings.
"""
