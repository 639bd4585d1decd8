"""What a pattern is (its four kinds, its counts, its id), and the case a loop asks lessons for."""
