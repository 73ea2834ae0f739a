"""Right sizes: requests and limits of services, from the usage of days.

In: the histograms of each service and day. Out: a size per service and resource, with what it would change.
`vpa` is the algorithm of Kubernetes' Vertical Pod Autoscaler, for comparison and as a bound.
"""
