"""AG-UI 1.0: runs as conversations for clients of that protocol.

`endpoint` is its only route. `projection` turns records into the protocol's events, which
`translation` makes.
"""
