"""New services: where they start, and how their creator makes them start there."""
