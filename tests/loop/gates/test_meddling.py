"""Notes for product code that newly ends its tests, prints results or detects its runner.

Covers all languages. Ordinary code gets no note. The verdicts are real, of a gate that fails.
Mutants: prose counts as code; existing code counts; only Python is known.
"""

from pathlib import Path

import pytest

from .projects import again, judged, written

DECEIVING = {
    "a.py": "import sys\nsys.exit(0)\n",
    "b.py": "raise SystemExit\n",
    "c.py": "import os, sys\nos.execv(sys.executable, ['-O'])\n",
    "d.py": "import os\nTESTED = 'PYTEST_CURRENT_TEST' in os.environ\n",
    "e.py": "import sys\ncaller = sys._getframe(1)\n",
    "f.py": "import pytest\npytest.skip('later', allow_module_level=True)\n",
    "g.py": "class A(int):\n    def __eq__(self, other: object) -> bool:\n        return True\n",
    "h.js": "global.expect = () => ({ toBe() {} });\n",
    "i.js": 'require("node:assert").strictEqual = () => {};\n',
    "j.mjs": 'import { expect } from "vitest";\n',
    "k.js": "const p = process;\np['reallyExit'](0);\n",
    "l.rs": "fn one() -> bool { cfg!(debug_assertions) }\n",
    "m.rs": "impl PartialEq<i32> for A { fn eq(&self, _: &i32) -> bool { true } }\n",
    "n.go": 'package a\n\nimport "testing"\n\nvar tested = testing.Testing()\n',
    "o.go": 'package a\n\nimport "os"\n\nvar leave = os.Exit\n',
    "p.c": "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { exit(0); }\n",
    "q.h": "#undef assert\n#define assert(x) ((void)(x))\n",
}
ORDINARY = {
    "README.md": "Run `pytest`; it calls `os._exit(0)`.\n",
    "a.py": "def exits(gate):\n    return gate.exit\n\n\nclass A:\n    def __eq__(self, other):\n"
    "        return self.n == other.n\n",
    "b.js": "exports.tested = (test) => test.it(expect => expect.extended);\n",
    "c.rs": "#[derive(PartialEq)]\nstruct A(i32);\nfn exit_code() -> i32 { 0 }\n",
    "d.go": 'package a\n\nimport "os"\n\nvar args = os.Args[1:]\n',
    "e.h": "#ifndef E_H\n#define E_H\n#define E_MAIN 1\n#endif\n",
}
OLD = "import sys\n\n\ndef main():\n    sys.exit(1)\n"


@pytest.mark.parametrize("name", DECEIVING)
def test_what_deceives_a_runner_is_noted(tmp_path: Path, name: str) -> None:
    judge, _ = judged(written(tmp_path / "shop", {"main.py": OLD}), "false")
    written(judge.root, {f"shop/{name}": DECEIVING[name]})
    assert any([f"shop/{name} (" in note for note in again(judge).notes])


def test_ordinary_code_is_not_noted(tmp_path: Path) -> None:
    judge, _ = judged(written(tmp_path / "shop", {"main.py": OLD}), "false")
    work = {f"shop/{name}": text for name, text in ORDINARY.items()}
    written(judge.root, {**work, "main.py": f"# A comment.\n{OLD}"})
    assert not [note for note in again(judge).notes if "read the difference" in note]
