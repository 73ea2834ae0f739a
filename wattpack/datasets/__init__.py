"""Published data sets: their table, and where each is on this machine.

In: the name of a set, and the folders to search. Out: the file or folder to read, or one sentence with what
to download and where to put it. A new set is one line in `catalogue.DATASETS`.
"""
