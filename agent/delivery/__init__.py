"""Delivers reports to the collector, despite crashes, full disks and days without a connection.

`sender` sends reports, and `responses` interprets the collector's responses. Until the collector accepts it,
a report stays in the `spool`: an SQLite file (`spool_file`), or memory if no disk is usable. `connection`
holds the token and the certificates.
"""
