"""Replaces host names and addresses by `[host]` in texts that go to other projects.

A difference may hold the address of a database beside the wrong line. Other projects do not need
it. A name is recognised as a host by its context (`://`, a mail address, quotes, a port) or by its
last part; a single name (`dbserver`) is not recognised.
"""

import re
from typing import Any, Final

from taofold.core.json_values import is_array, is_object

HOST: Final = "[host]"
_LABEL: Final = r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?)"
_WIDE: Final = (
    r"(?:com|org|net|edu|gov|mil|int|info|biz|cloud|internal|intranet|corp|lan|local|localdomain"
    r"|home|private|example|test|onion|arpa)"
)
_COUNTRY: Final = (
    r"(?:de|at|ch|eu|uk|us|fr|it|es|nl|be|dk|se|fi|pl|cz|ie|pt|gr|ro|hu|ru|ua|jp|cn|kr|in|au|nz|ca|br"
    r"|mx|ar|za|io|ai|co|app|dev|sh|me|tv|xyz|online|site|shop|bank|tech)"
)
_PATTERNS: Final = (
    # An address: the text before and after the host name stays.
    re.compile(r"(?<=://)(?:[^\s/@'\"`]+@)?(?!localhost\b|127\.|\[|\{)[^\s/:'\"`<>(){}\\]+"),
    re.compile(rf"(?<=[\w.+-]@){_LABEL}(?:\.{_LABEL})+"),
    re.compile(r"(?<![\w.])(?!127\.|0\.0\.0\.0|255\.)(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\w)"),
    re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){4,7}[0-9a-fA-F]{1,4}(?![\w:])"),
    re.compile(
        r"(?<![\w:])(?=[0-9a-fA-F:]*\d)[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,6}::"
        r"(?:[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,6})?(?![\w:])"
    ),
    re.compile(
        rf"(?:(?<=\bhost:)|(?<=\bhost )|(?<=\bhost: )|(?<=server )|(?<=server: )|(?<=\bto ))"
        rf"(?:{_LABEL}\.){{1,8}}(?:{_WIDE}|{_COUNTRY})(?![\w(.-])",
        re.IGNORECASE,
    ),
    re.compile(rf"(?<![\w.@-])(?=[\w.]*[-\d]){_LABEL}\.{_WIDE}(?![\w(-]|\.\w)"),
    re.compile(
        rf"(?<![\w.@-])(?!(?:self|this|cls)\.)(?:{_LABEL}\.){{2,8}}{_WIDE}(?![\w(-]|\.\w)",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?<=['\"`])(?:{_LABEL}\.){{1,8}}{_WIDE}(?=[:/'\"`])"
        rf"|(?<=['\"`])(?:{_LABEL}\.){{2,8}}{_COUNTRY}(?=[:/'\"`])"
        rf"|(?<=['\"`])(?:{_LABEL}\.){{1,8}}{_COUNTRY}(?=:\d{{2,5}}\b)",
        re.IGNORECASE,
    ),
)


def without_hosts(text: str, own: str = "") -> str:
    """Returns `text` with `[host]` for host names and addresses.

    Args:
        text: The text.
        own: The name of this machine, which is removed where it is a separate word.

    >>> without_hosts("connect('db7.bank.internal', 5432)")
    "connect('[host]', 5432)"
    """
    for pattern in _PATTERNS:
        text = pattern.sub(HOST, text)
    if len(own) > _SHORTEST and own.lower() != "localhost":
        text = re.sub(rf"(?<![\w-]){re.escape(own)}(?![\w-])", HOST, text, flags=re.IGNORECASE)
    return text


_SHORTEST: Final = 3
"""The length up to which a machine's name may be any word."""


def hosts_removed(value: Any, own: str = "") -> Any:
    """Returns JSON with `[host]` for host names and addresses in all its texts."""
    if isinstance(value, str):
        return without_hosts(value, own)
    if is_object(value):
        return {key: hosts_removed(each, own) for key, each in value.items()}
    if is_array(value):
        return [hosts_removed(each, own) for each in value]
    return value
