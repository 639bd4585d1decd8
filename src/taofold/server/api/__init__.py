"""The JSON routes: their handlers, grouped by what they are about, and the schemas they speak."""
