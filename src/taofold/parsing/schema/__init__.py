"""Types and JSON schemas: the shape of a value, and its lossless conversion."""
