"""All reports, for the time of the retention settings.

`interface` has what it is asked and answers; `sqlite.history` is the history. The feature `prometheus` also
writes the series to a store such as Prometheus or VictoriaMetrics.
"""
