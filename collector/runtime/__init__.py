"""The parts of one running collector, and its periodic jobs: analysis, retention, stored state."""
