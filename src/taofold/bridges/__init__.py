"""Bridges to tools and programs of other frameworks and protocols.

`python_tool` is an interpreter of Python. Vendor packages are optional extras; a bridge imports its
package on first use.
"""
