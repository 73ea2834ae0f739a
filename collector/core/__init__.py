"""The parts of one running collector, and what it counts about itself."""
