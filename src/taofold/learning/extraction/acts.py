"""Detects changes that start a process, use the network or import unrelated modules.

Such a change may have fixed the error in its project. Shown to another project's agent it would be
an instruction to run something there, so it is not a lesson. The inserted text is judged, in any
language. A call must belong to an object that the change or the error names or to a harmless
module, or be a method of values; any other is refused. Within these bounds the lists name what is
known to act; no list is complete.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from posixpath import basename
from typing import Final
from unicodedata import normalize

_PROCESS: Final = re.compile(
    r"\bos\s*\.\s*(?:system|popen|exec\w*|spawn\w*|posix_spawn\w*|startfile|fork\w*|kill\w*|putenv)\b"
    r"|\bsubprocess\b|\bPopen\b|\bpty\s*\.\s*spawn|\bcreate_subprocess\w*|\b__import__\b"
    r"|(?<![\w.])(?:eval|exec|compile)\s*\(|\bimportlib\b|\brunpy\b|\bctypes\b|\bcffi\b"
    r"|\b(?:pickle|marshal|dill|shelve)\s*\.\s*\w*load\w*|\byaml\s*\.\s*(?:unsafe_)?load\s*\("
    r"|\b(?:getattr|vars|setattr)\s*\(\s*(?:os|sys|builtins|__builtins__)\b|\b__(?:builtins|globals"
    r"|subclasses|loader|reduce)__|\bsys\s*\.\s*modules\b|\b(?:os|sys)\s*\.\s*__dict__"
    r"|\bchild_process\b|\b(?:exec|spawn)(?:File)?Sync\b|(?<!\.)\b(?:spawn|fork|execFile)\s*\("
    r"|\bnew\s+Function\s*\(|\bprocess\s*(?:\.\s*(?:binding|mainModule|dlopen)|\[)|\bvm\s*\.\s*run"
    r"|\bconstructor\s*\.\s*constructor\b|\b(?:Deno|Bun)\s*\.\s*(?:run|Command|spawn)|\bglobalThis\s*\["
    r"|\bCommand\s*::\s*new|\bstd\s*::\s*process\b|\blibc\s*::|\bexec\s*\.\s*Command|\bsyscall\s*\."
    r"|\bos\s*\.\s*StartProcess|\bplugin\s*\.\s*Open|\bgetRuntime\b|\bProcessBuilder\b"
    r"|\bProcess\s*\.\s*Start|\b(?:shell_exec|passthru|proc_open|popen|system|execl|execv\w*|dlopen)\s*\("
    r"|\b(?:sudo|eval|source)\s+\S|\|\s*(?:\S*/)?(?:ba|z|da|k|fi)?sh\b|\bpowershell\b|\bcmd\.exe\b"
    r"|\b(?:pip3?|npm|pnpm|yarn|cargo|gem|go|apt(?:-get)?|brew)\s+(?:i|install|add|get)\b|\bnpx\s+\S"
    r"|\bnew\s+(?:Shared)?Worker\s*\(|\bimportScripts\b|createElement\s*\(\s*['\"](?:script|iframe)"
    r"|\b(?:document\s*\.\s*)?location\s*(?:\.\s*href\s*)?=(?!=)|\bsrcdoc\b"
    r"|\bos\s*\.\s*environ\s*\[[^\]\n]*\]\s*=(?!=)|\b(?:os\s*\.\s*)?[sS]etenv\s*\(|\bset_var\s*\("
    # These make calls without naming them on the line, and the search is textual.
    r"|(?<![\w.])(?:exec|eval|execfile|compile|breakpoint)\b(?!\s*[=:])|\b(?:methodcaller|resolve_name)\b"
    r"|(?<![\w.])Function\s*[(`]|\bbuiltins\b|\b(?:multiprocessing|webbrowser|pkgutil|zipimport|pty|imp)\b"
    r"|\bsubprocess_\w+|(?<!\bjson)(?<!\btomllib)(?<!\btoml)\.\s*(?:load|from_pretrained)\s*\("
    r"|\bsys\s*\.\s*(?:path|meta_path|path_hooks|set\w+)\b|\b(?:addsitedir|pytest_plugins|addopts)\b"
    r"|\bset(?:Timeout|Interval)\s*\(\s*['\"`]|\bKernel\b|%x[({\[]|!!python|\bxp_cmdshell\b"
    r"|\bTO\s+PROGRAM\b|\b(?:NODE_OPTIONS|PYTHON(?:PATH|STARTUP|HOME)|LD_[A-Z]+|DYLD_\w+)\b|\bscript-shell\b"
    r"|['\"](?:pre|post)?(?:install|prepare)['\"]\s*:"
    r"|\brm\s+-\w*[rf]|\bchmod\s+[+0-7u]|\bshutil\s*\.\s*rmtree|\brmSync\s*\(|\bremove_dir_all\b",
)
_NETWORK: Final = re.compile(
    r"\b(?:requests|httpx|aiohttp|urllib\d?|smtplib|ftplib|telnetlib|paramiko|websockets?|pycurl)\s*\."
    r"|\bsocket\s*\.\s*\w|\bhttp\s*\.\s*client\b|\burlopen\b|\burlretrieve\b|\bxmlrpc\b"
    r"|\bopen_connection\s*\(|(?<![\w.])fetch\s*\(|\bXMLHttpRequest\b|\baxios\b|\bsuperagent\b"
    r"|\bhttps?\s*\.\s*(?:get|request|Get|Post|Head|Do|NewRequest\w*|Client|DefaultClient)\b"
    r"|\bnet\s*\.\s*(?:connect|createConnection|Socket|Dial\w*|Listen\w*)|\bnew\s+WebSocket\b"
    r"|\bsendBeacon\b|\bEventSource\s*\(|\bTcpStream\b|\bUdpSocket\b|\breqwest\b|\bhyper\s*::"
    r"|\bureq\b|\bHttpClient\b|\bURLConnection\b|\bnew\s+URL\s*\(|\bcurl(?:_\w+)?\b|\bwget\b"
    r"|\b(?:https?|ftps?|wss?|ssh|git|file|data|javascript):(?://|\w+/)",
    re.IGNORECASE,
)
_FILES: Final = re.compile(
    r"\bopen\s*\([^\n]*?['\"][rbt]*[wax+][rbt+]*['\"]|\bopen\s*\(\s*\*[^)\n]*"
    r"|\bmode\s*=\s*[^'\"\s][^,)\n]*"
    r"|\.\s*(?:unlink|rmdir|touch|hardlink_to)\s*\(|\bshutil\s*\.\s*\w+"
    r"|\bos\s*\.\s*(?:remove|unlink|rename|replace|chmod|chown|link|truncate)\w*|\b(?:write_(?:text|bytes)|writeFile(?:Sync)?"
    r"|appendFile(?:Sync)?|createWriteStream|symlink(?:_to)?|WriteFile)\b[^,)\n]*"
    r"|\bFile\s*::\s*create\s*\([^,)\n]*|\bfs\s*::\s*write\s*\([^,)\n]*"
)
_IMPORTS: Final = re.compile(
    r"(?m)(?:^|;)[ \t]*(?:"
    r"from(?:[ \t]+|(?=\.))(?P<python>\.*[\w.]*)[ \t]+import[ \t]+(?P<names>[^;\n#]+)"
    r"|import[ \t]+(?:static[ \t]+)?(?P<plain>[\w.]+(?:[ \t]*,[ \t]*[\w.]+)*)"
    r"|(?:import|export)\b[^;'\"\n]*['\"](?P<script>[^'\"\n]+)['\"]"
    r"|(?:pub[ \t]+)?(?:use|extern[ \t]+crate|using|mod)[ \t]+(?P<path>[\w:\\.]+)[^;\n]*;"
    r"|\#[ \t]*include[ \t]*[<\"](?P<header>[^>\"\n]+)[>\"]"
    r"|(?:require|include|require_relative|load)(?:_once)?[ \t]+['\"](?P<ruby>[^'\"\n]+)['\"]"
    r"|(?:[\w.]+[ \t]+)?\"(?P<go>[\w./-]+)\"[ \t]*$"
    r")|\b(?:require|import)[ \t]*\(\s*(?P<call>[^)\n]*)\)|\brequire\b(?P<bare>[ \t]*[^(\s'\"])"
)
_HARMLESS: Final = frozenset(
    """
    __future__ abc array bisect calendar collections contextlib copy dataclasses datetime decimal
    enum fractions functools heapq io itertools json logging math numbers operator pathlib queue
    random re secrets statistics string textwrap threading time types typing typing_extensions
    unicodedata uuid warnings weakref zoneinfo

    borrow cell clone cmp convert default fmt hash iter marker mem num ops option result str sync
    vec bufio bytes context errors maps slices sort strconv strings unicode utf8 regexp assert
    path util

    assert.h ctype.h errno.h float.h limits.h math.h stdbool.h stddef.h stdint.h stdio.h string.h
    algorithm map memory numeric optional set unordered_map unordered_set utility vector
    """.split()  # noqa: SIM905 - a list of words is read more easily
)
"""Modules that start no process, open no connection and load no code by themselves: of Python, of
Rust (the second part of `std::…`) with Go and Node, of C and C++.
"""
_COMMANDS: Final = re.compile(
    r"\.(?:sh|bash|zsh|fish|ksh|ps1|bat|cmd|mk)$|^(?:gnu)?makefile$|^dockerfile$|^justfile$"
    r"|^package\.json$|\.(?:ini|cfg|conf|toml|properties|service|env|ya?ml)$|^\.[\w.\-]+$"
)
"""Scripts and configuration."""
_TEXTS: Final = re.compile(r"\.(?:md|rst|txt|adoc|mdx)$")
_WORD: Final = re.compile(r"[^\W\d]\w*")
_QUOTED: Final = re.compile(r"'(?:[^'\\\n]|\\.)*'" r'|"(?:[^"\\\n]|\\.)*"')
_ROOT: Final = re.compile(
    r"(?<![\w.)\]:])([a-z_]\w*)\s*(?:::|\.)\s*(?:[^\W\d]\w*\s*(?:::|\.)\s*)*([^\W\d]\w*)\s*!?\s*[(`]"
)
"""The text before the first point of a call, and the called name."""
_PASSED: Final = re.compile(
    r"(?:\b(?:map|filter|reduce|partial|Thread|Timer|register|then|forEach)\s*\(\s*(?:target\s*=\s*)?"
    r"|\b(?:target|key|callback|initializer|on\w+)\s*=\s*|@\s*)([a-z_]\w*)\s*\.\s*([^\W\d]\w*)"
)
"""The same for a function that is passed on, to be called elsewhere, or decorates."""
_INERT: Final = frozenset(
    {name for kind in (str, bytes, float, list, dict, set) for name in dir(kind)}
    | {"len", "iter", "push", "lock", "borrow", "clone", "length", "includes", "slice", "concat"}
)
"""Methods of values, in any language, in addition to those recognised by their prefix."""
_ASKING: Final = re.compile(
    r"(?:is|has|as|into|to|checked|saturating|wrapping|unwrap|expect|map|filter|fold|iter|trim)(?:_|[A-Z]|\b)"
)
_BOUND: Final = re.compile(
    r"([^\W\d]\w*)\s*(?::\s*[\w\[\], .|]+)?(?:=(?!=)|:=)"
    r"|\b(?:for|let|var|const|as)\s+(?:mut\s+)?([^\W\d]\w*)|\|\s*&?([^\W\d]\w*)\s*\|"
)
_PARAMETERS: Final = re.compile(r"\b(?:def|fn|func|function|lambda)\b[^\n]*|[^\n=]*=>")
_OWN: Final = frozenset(
    ("self", "cls", "this", "super", "crate", "std", "core", "alloc", "console")
)


def acts(gone: Iterable[str], new: Iterable[str], error: str = "", path: str = "") -> str:
    """Returns how a change from the lines `gone` to `new` acts beyond the code; "" if it does not.

    Args:
        gone: The removed lines.
        new: The inserted lines.
        error: Class and message of the error. Modules that it names may be imported.
        path: The file. Each line of a script or a configuration is a command.

    Example: `acts([], ["import requests"], "KeyError: 'total'")` is `"it imports what the error
    does not name"`.
    """
    before, after = _plain(gone), _plain(new)
    name, known = basename(path).lower(), _words(error)
    if after.strip() and _TEXTS.search(name):
        return "it changes a text"
    # Each line of a script is a command: only words from before, or from the error, may be
    # inserted.
    if _COMMANDS.search(name) and not _words(after) <= _words(before) | known:
        return "it changes commands"
    for does, pattern in (("it starts a process", _PROCESS), ("it uses the network", _NETWORK)):
        # A call that was present before, with the rest of its line, is not new.
        if Counter(_statements(pattern, after)) - Counter(_statements(pattern, before)):
            return does
    # Only the file is compared: a fix may add an encoding.
    if Counter(_FILES.findall(after)) - Counter(_FILES.findall(before)):
        return "it writes files"
    there = [*_imports(before)]
    if any(not _named(each, known, there) for each in _imports(after)):
        return "it imports what the error does not name"
    # The object of a call, or the source of a function, must have been present.
    named = _words(before) | known | _bound(after)
    if any(root not in named for root in _roots(after)):
        return "it calls what neither the file nor the error names"
    if len(_INDIRECT.findall(after)) > len(_INDIRECT.findall(before)):
        return "it calls what an expression gives"
    return ""


def _roots(text: str) -> Iterator[str]:
    """Yields the objects and modules of calls, except those that are harmless everywhere."""
    code = _QUOTED.sub("''", text)
    for root, method in _ROOT.findall(code) + _PASSED.findall(code):
        inert = method in _INERT or _ASKING.match(method)
        if not inert and root not in _OWN and root not in _HARMLESS:
            yield root.casefold()


def _bound(text: str) -> set[str]:
    """Returns the names that the code binds itself."""
    names = {name.casefold() for found in _BOUND.findall(text) for name in found if name}
    return names | _words(" ".join(_PARAMETERS.findall(text)))


_INDIRECT: Final = re.compile(r"(?<=[)\]])\(")


def inert(lines: Iterable[str]) -> list[str]:
    """Returns those of `lines` that neither start a process nor use the network."""
    return [line for line in lines if not acts((), [line])]


def _plain(lines: Iterable[str]) -> str:
    """Returns the lines as programs read them: Python reads `ｏｓ` as `os`, shells join lines."""
    return re.sub(r"\\\n\s*", "", normalize("NFKC", "\n".join(lines)))


def _statements(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for found in pattern.finditer(text):
        end = text.find("\n", found.end())
        yield "".join(text[found.start() : end if end >= 0 else len(text)].split())


def _imports(text: str) -> Iterator[tuple[str, str]]:
    """Yields the module, or requested path, and the names that are imported from it."""
    for found in _IMPORTS.finditer(text):
        kind = str(found.lastgroup)
        if kind == "names":
            yield found["python"], found["names"]
        elif kind == "plain":
            yield from [(each.strip(), "") for each in found["plain"].split(",")]
        else:
            yield found[kind].strip().strip("'\"`"), ""


def _named(imported: tuple[str, str], known: set[str], there: list[tuple[str, str]]) -> bool:
    """Returns whether an import is harmless, named by the error, or part of an earlier one."""
    module, names = imported
    parts = _WORD.findall(re.sub(r"\.(?:c|m)?[jt]sx?$|\.h(?:pp)?$", "", module))
    root = "." if module.startswith(".") else "".join(parts[:1])
    head = parts[1] if parts[:1] in (["std"], ["core"], ["alloc"], ["node"]) and parts[1:] else root
    if module in _HARMLESS or head in _HARMLESS:
        return True
    taken = _words(names) - {"as"}
    for other, others in there:
        # The same names from another part of the same module, or the module itself again.
        same = other == module or other.split(".")[0] == root
        if same and taken <= _words(others) and (taken or other == module):
            return True
    # The last part of a path is the bound name: `import yaml`, `use crate::money::Money`.
    return not (_words(" ".join(parts[-1:])) | taken).isdisjoint(known)


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
