"""Rules for passwords."""

LEAST = 8


def mixed(text):
    return any(c.isdigit() for c in text) or any(c.isalpha() for c in text)


def strong(text, forbidden=()):
    if len(text) < LEAST:
        return False
    lowered = text.lower()
    if any(word in lowered for word in forbidden):
        return False
    return mixed(text)


def advice(text):
    tips = []
    if len(text) < LEAST:
        tips.append("longer")
    if not mixed(text):
        tips.append("letters and digits")
    return tips
