"""least-watts: where a task adds the fewest watts, within a stated risk."""
