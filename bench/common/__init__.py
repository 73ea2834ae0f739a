"""What all benchmarks share: results, progress, requirements, and measurements of processes."""
