"""Patterns: values, registry, ranking, rendering, exchange."""
