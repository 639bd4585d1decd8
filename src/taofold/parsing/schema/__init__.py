"""Types and JSON schemas: the shape a value must have, and the lossless way of a value to it."""
