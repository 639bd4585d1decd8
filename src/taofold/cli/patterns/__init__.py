"""`taofold patterns …`: what loops have learnt, to look at, to tidy up, to share."""
