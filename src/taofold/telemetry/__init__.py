"""Traces: runs as other people's observability tools show them.

A trace is a projection of the log, made as the run goes on (`traced_log`) or at any time later
(`projection.spans_of`); both give the same spans with the same ids, so that sending twice changes
nothing. What models and tools said leaves only when asked for.

Pure: `spans` are the values, `projection` makes them of records, `attributes` says them in the
words of the conventions, `prompt` is what a model was sent. `traced_log` tells an exporter, which
is `otel` or `opik`; these send through an `outbox`.
"""
