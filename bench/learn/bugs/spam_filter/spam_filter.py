"""A simple filter for messages."""

WORDS = {"winner", "prize", "casino"}


def suspicious(text):
    words = {word.strip(".,!").lower() for word in text.split()}
    return bool(words & WORDS)


def shouting(text):
    letters = [c for c in text if c.isalpha()]
    return len(letters) > 5 and all(c.isupper() for c in letters)


def is_spam(text, known_sender):
    if known_sender:
        return False
    return suspicious(text) and shouting(text)
