"""The file of the SQLite history: open it, check it, convert an older format, repair damage."""
