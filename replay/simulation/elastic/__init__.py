"""A service whose replicas and CPU limits follow its load.

Requests arrive, queue at replicas and are served with the CPU that the limits allow. The policies and their
observations are the collector's own.
"""
