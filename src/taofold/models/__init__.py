"""Adapters to language models. Importing this package loads no adapter and no HTTP client.

`runtime.providers.resolve("provider:model")` loads an adapter when it is requested.
"""
