"""Runs tests against a product that lives in another process. Loaded by `launch.py`.

Proxies replace the modules of the product. A call goes through a pipe as plain data and returns
plain data, so the tests' process contains nothing of the product. The product cannot change the
runner, return objects that equal everything, or learn what is asserted. A value that is not plain
data (a class, a callback, a generator) is not supported: `Apart` is raised. Python 3.8 or later;
imports nothing of taofold.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import importlib
import importlib.machinery
import io
import json
import os
import subprocess
import sys
import types
from collections.abc import Sequence
from typing import Any

SCALARS = (type(None), bool, int, str)
TAGS: dict[str, Any] = {"l": list, "t": tuple, "s": set, "z": frozenset}
NO_DUMP = 4
"""Linux's `PR_SET_DUMPABLE`: with 0 a process of the same user may not inspect this one."""


class Apart(Exception):
    """This test needs more of the product than plain data."""


def packed(value: Any) -> Any:
    """Returns plain data as JSON.

    Raises:
        Apart: It is not plain data.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    # By exact type: a subclass of `str` could be equal to everything.
    if kind in SCALARS:
        return value
    if kind is float:
        # Exact, and with NaN and infinities, which JSON does not have.
        return {"f": value.hex()}
    if kind is bytes:
        return {"b": value.hex()}
    if kind is dict:
        # Pairs, because keys in JSON are text.
        return {"d": [[packed(key), packed(inner)] for key, inner in value.items()]}
    for tag, standard in TAGS.items():
        if kind is standard:
            return {tag: [packed(inner) for inner in value]}
    raise Apart("a " + kind.__name__ + " is not plain data")


def unpacked(said: Any) -> Any:
    """Returns the value that was packed."""
    if type(said) in SCALARS:
        return said
    [(tag, inner)] = said.items()
    if tag == "f":
        return float.fromhex(inner)
    if tag == "b":
        return bytes.fromhex(inner)
    if tag == "d":
        return {unpacked(key): unpacked(value) for key, value in inner}
    return TAGS[tag](unpacked(element) for element in inner)


class Product:
    """The process of the product, as seen by the tests' process."""

    def __init__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(NO_DUMP, 0, 0, 0, 0)
        reader, answers = os.pipe()
        questions, writer = os.pipe()
        command = [sys.executable, "-I", "-B", __file__, str(questions), str(answers)]
        self._process = subprocess.Popen(command, pass_fds=(questions, answers))
        os.close(questions)
        os.close(answers)
        self._reader = os.fdopen(reader, encoding="utf-8")
        self._writer = os.fdopen(writer, "w", encoding="utf-8")
        self._raised: dict[tuple[str, str], type[BaseException]] = {}

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        """Returns its answer.

        Raises:
            Apart: It has none, or is gone.
            BaseException: The exception that the product raised.
        """
        line = ""
        with contextlib.suppress(OSError):
            self._writer.write(json.dumps({"what": what, **more}) + "\n")
            self._writer.flush()
            line = self._reader.readline()
        if not line:
            raise SystemError("the process of the product ended")
        answer: dict[str, Any] = json.loads(line)
        if "apart" in answer:
            raise Apart(answer["apart"])
        if "raised" in answer:
            raise self.exception(*answer["raised"])(*unpacked(answer["values"]))
        return answer

    def exception(self, module: str, name: str, above: Sequence[str]) -> type[BaseException]:
        """Returns a class for an exception of the product, always the same for the same name."""
        if module == "builtins":
            # The product's process may send any name: `exec` must not be called here.
            return _standard(name) or Exception
        if (module, name) not in self._raised:
            # The nearest standard class: `pytest.raises(ValueError)` accepts a subclass of it.
            bases = [base for base in map(_standard, above) if base is not None]
            exception: Any = type(name, (bases[0] if bases else Exception,), {"__module__": module})
            self._raised[module, name] = exception
        return self._raised[module, name]


def _standard(name: str) -> type[BaseException] | None:
    """Returns the exception class that Python itself has under `name`."""
    builtin = getattr(builtins, name, None)
    return builtin if isinstance(builtin, type) and issubclass(builtin, BaseException) else None


class Proxy(types.ModuleType):
    """A module of the product."""

    _product: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        answer = self._product.ask("get", module=self.__name__, name=name)
        if answer["kind"] == "value":
            return unpacked(answer["value"])
        if answer["kind"] == "exception":
            return self._product.exception(*answer["is"])
        if answer["kind"] == "module":
            return importlib.import_module(answer["is"])
        return function(self._product, self.__name__, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system sets its own names, and submodules on their package. A test that patches
        # the product would patch nothing, but must not fail here.
        if name.startswith("_") or isinstance(value, types.ModuleType):
            super().__setattr__(name, value)
        else:
            raise Apart("it sets " + name + " in the product")


def function(product: Product, module: str, name: str) -> Any:
    """Returns the replacement of a function of the product."""

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = packed([list(args), kwargs])
        answer = product.ask("call", module=module, name=name, given=arguments)
        # The tests' own standard output, which `capsys` captures.
        sys.stdout.write(answer["printed"])
        for argument, theirs in zip(args, unpacked(answer["given"])):  # noqa: B905 - 3.8
            refill(argument, theirs)
        return unpacked(answer["value"])

    call.__name__ = call.__qualname__ = name
    return call


def refill(mine: Any, theirs: Any) -> None:
    """Applies the function's changes of an argument here too."""
    if type(mine) is list:
        mine[:] = theirs
    elif type(mine) in (dict, set):
        mine.clear()
        mine.update(theirs)


class Finder:
    """Finds proxies for the modules whose files are sources of the product."""

    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = frozenset(os.path.realpath(path) for path in sources)
        self._product = Product()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Returns a proxy's spec, or None if the module is not the product's."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or os.path.realpath(spec.origin or "") not in self._sources:
            return None
        proxied = importlib.machinery.ModuleSpec(name, self, origin=spec.origin)  # type: ignore[arg-type]
        proxied.submodule_search_locations = spec.submodule_search_locations
        return proxied

    def create_module(self, spec: Any) -> Any:
        """Returns the proxy."""
        proxy = Proxy(spec.name)
        proxy._product = self._product
        return proxy

    def exec_module(self, module: Any) -> None:
        """Lets the product load it."""
        self._product.ask("import", module=module.__name__, path=sys.path)


def serve(reader: Any, writer: Any) -> None:
    """Serves the product's side: answers one question per line until the input ends."""
    for line in reader:
        question = json.loads(line)
        try:
            answer = answered(question)
        except Apart as error:
            answer = {"apart": str(error)}
        except BaseException as error:  # noqa: BLE001 - the tests see what the product raises
            answer = raised(error)
        writer.write(json.dumps(answer) + "\n")
        writer.flush()


def answered(question: dict[str, Any]) -> dict[str, Any]:
    """Returns the product's answer to one question."""
    what = question["what"]
    if what == "import":
        sys.path[:] = question["path"]
    module = importlib.import_module(question["module"])
    if what == "import":
        return {}
    thing = getattr(module, question["name"])
    if what == "call":
        args, kwargs = unpacked(question["given"])
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            value = thing(*args, **kwargs)
        answer = {"value": packed(value), "given": packed(list(args))}
        return {**answer, "printed": printed.getvalue()}
    if isinstance(thing, types.ModuleType):
        return {"kind": "module", "is": thing.__name__}
    if isinstance(thing, type) and issubclass(thing, BaseException):
        return {"kind": "exception", "is": named(thing)}
    if isinstance(thing, (types.FunctionType, types.BuiltinFunctionType)):
        return {"kind": "function"}
    return {"kind": "value", "value": packed(thing)}


def raised(error: BaseException) -> dict[str, Any]:
    """Returns an exception as data."""
    try:
        values = packed(list(error.args))
    except Apart:
        values = packed([str(error)])
    return {"raised": named(type(error)), "values": values}


def named(kind: type[BaseException]) -> list[Any]:
    """Returns the module and name of an exception, and its standard base classes."""
    above = [base.__name__ for base in kind.__mro__ if base.__module__ == "builtins"]
    return [kind.__module__, kind.__name__, above]


if __name__ == "__main__":
    serve(
        os.fdopen(int(sys.argv[1]), encoding="utf-8"),
        os.fdopen(int(sys.argv[2]), "w", encoding="utf-8"),
    )
