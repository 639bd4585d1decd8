"""The marks of model families, arguments written as tags, and blocks of calls."""
