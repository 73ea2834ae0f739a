"""Data sets that others published: which there are, where each is on this machine, and a generated sample.

In: the name of a set, and the folders to search. Out: the file or folder to read, or one sentence that says
what to get and where to put it. A new set is one line in `catalogue.DATASETS`.
"""
