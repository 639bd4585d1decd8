"""What a pattern is: its four kinds, its counts, its id, and the notes kept of loops."""
