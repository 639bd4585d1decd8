"""JSON and what is written like it: strings, tokens, one value read in one pass, and its doubts."""
