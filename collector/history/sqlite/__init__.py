"""The history in one SQLite file: a thread writes, one reads, one rolls up."""
