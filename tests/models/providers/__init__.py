"""Whole agents against strict fake providers: servers that refuse what the real ones refuse.

The fakes lie beside the checkout (`shared/tools/providers/fakes`, or where TAOFOLD_PROVIDER_FAKES
points) and run in the environment `providers`, because they check every request against the
official SDKs' own types. Without either the tests say so and are skipped.
"""
