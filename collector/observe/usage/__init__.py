"""The usage of containers: histograms of all their samples, through restarts and moves."""
