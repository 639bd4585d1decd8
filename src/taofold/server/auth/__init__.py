"""Who a request is from: bearer tokens, the local secret, browser sessions, and the checks of
address, host and origin that come before any of them.
"""
