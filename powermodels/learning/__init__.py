"""Follows a meter: the tracker with its memory of samples, and refits in a child process."""
