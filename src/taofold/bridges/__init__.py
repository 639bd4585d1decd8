"""Bridges to what others built: tools and programs of other frameworks and protocols.

Each is an extra, and only its own module imports the vendor's package, when it is used.
"""
