"""Follows a meter: the tracker, its memory of samples, and refits in a child process."""
