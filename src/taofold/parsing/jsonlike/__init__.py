"""JSON and its malformed variants: strings, tokens, a one-pass reader of values, and its doubts."""
