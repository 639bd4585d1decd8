"""Traces: runs in the format of observability tools.

A trace is a projection of the log, made during the run (`traced_log`) or later
(`projection.spans_of`). Both produce the same spans with the same ids, so sending twice changes
nothing, and missing spans can be exported again. Content is sent only on request.

Pure modules: `spans` are the values, `projection` makes them from records, `attributes` names their
facts by the conventions, `prompt` is the input of a model. `traced_log` passes spans to an
exporter. `otel` sends them over OTLP to the URL from `targets`.
"""
