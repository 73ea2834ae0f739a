"""Results as tables, charts and pages, beside the figures of papers and peers."""
