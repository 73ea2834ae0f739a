"""Tables, units and reports for people."""
