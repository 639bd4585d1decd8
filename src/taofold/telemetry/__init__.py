"""Traces: runs as other people's observability tools show them.

A trace is a projection of the log, made as the run goes on (`traced`) or at any time later
(`spans_of`); both give the same spans with the same ids, so that sending twice changes nothing.

`ids`, `spans`, `projection`, `attributes`: pure. `traced`: a log that tells an exporter.
`otel`, `opik`, `post`: the ways out. What models and tools said leaves only when asked for.
"""
