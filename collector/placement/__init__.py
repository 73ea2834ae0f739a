"""Where a container should go, and why: question, ranking, reservations, explanation."""
