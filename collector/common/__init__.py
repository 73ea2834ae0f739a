"""Code that all packages of the collector share: errors, labels, quantities, liveness, clocks, outages."""
