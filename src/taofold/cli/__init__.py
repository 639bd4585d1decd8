"""The command line. It is the only part of taofold that knows terminals."""

from taofold.cli.app import app, main

__all__ = ["app", "main"]
