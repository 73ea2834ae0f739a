"""What decisions brought, measured after they were carried out, and what the collector learns from it."""
