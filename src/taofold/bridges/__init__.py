"""Bridges to what others built: tools and programs of other frameworks and protocols, and an
interpreter of Python (`python_tool`).

Where a vendor's package is needed it is an extra, and only the bridge imports it, when it is used.
"""
