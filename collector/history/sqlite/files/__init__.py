"""The file of the SQLite history: open it, check it, repair damage."""
