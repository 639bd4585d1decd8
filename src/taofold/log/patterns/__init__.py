"""The registry of patterns as it is kept: its facts, its tables and its files."""
