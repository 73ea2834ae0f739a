"""How reports reach the collector, through crashes, full disks and days without it.

`deliver` sends and waits for receipts, whose meaning `answers` tells; until there is one, a report
stands in the `spool`: an SQLite file (`spoolfile`), or memory where there is no disk for it. What the
collector is shown, so that it believes this node, is in `credentials`.
"""
