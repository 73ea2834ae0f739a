"""Energy4Cloud: overbooking by class, cuts, and kills as the last resort."""
