"""Docker hosts without an orchestrator: limits are changed live, containers are created again elsewhere.

`allow_list` decides what may be copied (pure); `containers` lists and moves them.

A moved container keeps its image, command, environment, labels, limits, ports and networks by name. It cannot
keep its address, its own file system or its volumes: a container with volumes stays.
"""
