"""All reports, for the time of the retention settings.

`interface` is all that the rest of the collector uses; `factory` opens the history that the settings name.
`sqlite` needs nothing installed. `prometheus` also writes the series to a store such as Prometheus or
VictoriaMetrics.
"""
