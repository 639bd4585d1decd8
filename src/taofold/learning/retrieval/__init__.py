"""Selects the patterns that answer the current errors, and renders them."""
