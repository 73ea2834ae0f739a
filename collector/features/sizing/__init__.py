"""Sizing: recommended requests and limits of services, from their daily usage.

In: the histograms of each service and day. Out: a recommendation per service, with its effect. `vpa` is the
algorithm of Kubernetes' Vertical Pod Autoscaler, for comparison and as a budget.
"""
