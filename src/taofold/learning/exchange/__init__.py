"""Patterns as files in the seed's layout, written and read."""
