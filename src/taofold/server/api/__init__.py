"""The JSON routes: their handlers, grouped by what they are about, and the schemas they speak.

`responses` makes the answers of the log's values; a route itself is an `endpoint`.
"""
