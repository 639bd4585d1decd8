"""The marks of model families: the table of them, arguments written as tags, blocks of calls."""
