"""What runs periodically beside the event loop: analysis and retention."""
