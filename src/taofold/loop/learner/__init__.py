"""What loops learn from one another: the values, the seam, and the learner over the registry."""
