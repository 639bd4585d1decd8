"""What every HTTP client of the house shares: which addresses are public, where credentials go.

`addresses` decides on one address; `public` connects to public addresses only; `direct` sends
a request that is never redirected. Knows nothing about tools, models or providers.
"""
