"""What can be seen of a cluster: a module per topic, each with its questions, its answers and its `ROUTES`.

In come the parameters of a request, out goes a frozen answer; everything is read off what the collector
knows in memory, and only means, series, accounts and events are asked of the history. Lists are told a page
at a time (`paging`), in an order in which the next page can be found whatever came or went meanwhile.
`stream` serves what changes, as it changes.
"""
