"""What all rooms share: errors, labels, quantities, liveness, periodic tasks, outages."""
