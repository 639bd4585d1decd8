"""Whole agents against strict fake providers: servers that refuse the same requests as the real
ones.

The fakes are beside the checkout (`shared/tools/providers/fakes`, or TAOFOLD_PROVIDER_FAKES). They
run in the environment `providers`, because they check every request with the official SDKs' own
types. Without either, the tests are skipped with a reason.
"""
