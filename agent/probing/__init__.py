"""Response times of the containers on this host, measured by HTTP requests to those with a label.

In: containers with the label `wattpack.probe`, as the engine lists them. Out: a histogram of response times
per service, in the next report. Requests go to addresses of the host's own containers only.
"""
