"""Traces: runs as other people's observability tools show them.

A trace is a projection of the log, made as the run goes on (`traced`) or at any time later
(`projection.spans_of`); both give the same spans with the same ids, so that sending twice changes
nothing. What models and tools said leaves only when asked for.

Pure: `spans` are the values, `projection` makes them of records, `attributes` and `otlp` translate
them, `prompt` is what a model was sent. `traced` is a log that tells an exporter, with what
exporters send with: `otel` and `opik`.
"""
