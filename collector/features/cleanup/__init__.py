"""Cleanup: finished containers that nobody needs leave the disks of Docker hosts.

`rule` decides and is pure; `controllers` runs it. Other orchestrators remove what has finished themselves.
"""
