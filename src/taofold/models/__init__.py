"""Adapters to language models. Importing this package loads no adapter and no HTTP client.

`runtime.providers.resolve("provider:model")` loads the one that is asked for.
"""
