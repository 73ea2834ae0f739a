"""Results as tables, charts and pages, compared with the figures of papers and peers."""
