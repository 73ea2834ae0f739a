"""The web page in a real browser: its speed, its cost and its screenshots."""
