"""Traces: runs as other people's observability tools show them.

A trace is a projection of the log, made while the run goes on (`traced_log`) or at any time later
(`projection.spans_of`). Both give the same spans with the same ids, so sending twice changes
nothing, and what did not arrive can be exported again. Content leaves only if it is asked for.

Pure: `spans` are the values, `projection` makes them from records, `attributes` names their facts
as the conventions do, `prompt` is what a model was sent. `traced_log` gives spans to an exporter:
`otel` sends them over OTLP, to the URL that `targets` finds.
"""
