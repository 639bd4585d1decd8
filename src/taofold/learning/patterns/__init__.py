"""The values of patterns (four kinds, counts, ids), and the case for which a loop needs lessons."""
