"""The JSON routes: handlers grouped by topic, and their schemas.

`responses` makes responses from the log's values. Each route is an `endpoint`.
"""
