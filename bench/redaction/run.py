"""How much the redactor takes out: `python bench/redaction/run.py [PASSWORDS] [FILES]`.

Random passwords in four forms, and files of Python's standard library, which hold none. Each with
the certain rules, which keep a record free of secrets, and with guesses, which mask views.
"""

import random
import string
import sys
import sysconfig
import time
from pathlib import Path

from taofold.policy.redaction import Redactor

FORMS = {
    "password: …": "password: {}",
    '"password": "…"': '"password": "{}"',
    "PASSWORD=…": "PASSWORD={}",
    "in an object": '{{"user": "ada", "password": "{}"}}',
}
SIGNS = "!#$%&*+-.:;<=>?@^_~()[]{}"
SEED = 2026


def passwords(count: int) -> list[str]:
    """Passwords of 12 to 16 characters with letters, digits, signs and brackets."""
    draw = random.Random(SEED)
    letters = string.ascii_letters + string.digits + SIGNS
    return ["".join(draw.choices(letters, k=draw.randint(12, 16))) for _ in range(count)]


def main(count: int = 5_000, most: int = 1_500) -> None:
    """Print the share of passwords that stay, and of files in which something is taken out."""
    rules = {"certain rules": Redactor(), "with guesses": Redactor(guesses=True)}
    drawn = passwords(count)
    for form, template in FORMS.items():
        for name, redactor in rules.items():
            stay = sum(word in redactor.text(template.format(word)) for word in drawn)
            print(f"{form:18} {name:14} {stay / count:7.2%} of {count} passwords stay")
    library = Path(sysconfig.get_path("stdlib"))
    paths = [path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts]
    files = [path.read_text("utf-8", "replace") for path in paths[:most]]
    for name, redactor in rules.items():
        start = time.perf_counter()
        hit = sum(redactor.text(text) != text for text in files)
        pace = (time.perf_counter() - start) / (sum(map(len, files)) / 1e6)
        print(
            f"{'stdlib':18} {name:14} {hit} of {len(files)} files changed, {pace:.2f} s a megabyte"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
