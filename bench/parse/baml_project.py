"""Writes the corpus's types as a BAML project, so that BAML's own parser can run offline."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cases import HERE, SCHEMAS, adapter_of

PROJECT = HERE.parent / ".venvs" / "baml"
HEAD = """generator target {{
  output_type "python/pydantic"
  output_dir "../"
  version "{version}"
  default_client_mode sync
}}
client<llm> Nobody {{
  provider "openai-generic"
  options {{
    model "none"
    base_url "http://127.0.0.1:9/v1"
  }}
}}
type D0 = int | float | bool | string | null
type D1 = int | float | bool | string | null | D0[] | map<string, D0>
type D2 = int | float | bool | string | null | D1[] | map<string, D1>
type Data = int | float | bool | string | null | D2[] | map<string, D2>
"""
PLAIN = {"string": "string", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}


class Translator:
    """Converts one JSON schema to BAML classes. Free maps are three levels deep, as BAML allows."""

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self.prefix = "S_" + re.sub(r"\W", "_", name) + "_"
        self.definitions = schema.get("$defs", {})
        self.classes: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def type(self, node: dict[str, Any], hint: str) -> str:
        if "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[-1]
            return self.object(self.definitions[name], name)
        if "const" in node:
            return json.dumps(node["const"])
        if "enum" in node:
            return "(" + " | ".join(json.dumps(each) for each in node["enum"]) + ")"
        parts = node.get("anyOf") or node.get("oneOf")
        if parts:
            kinds = [self.type(each, hint) for each in parts]
            real = [each for each in kinds if each != "null"]
            union = "(" + " | ".join(real) + ")" if len(real) > 1 else real[0]
            return union + ("?" if len(real) < len(kinds) else "")
        kind = node.get("type", "")
        if kind == "array":
            return f"({self.type(node['items'], hint) if node.get('items') else 'Data'})[]"
        if "properties" in node:
            return self.object(node, node.get("title", hint))
        if kind == "object":
            extra = node.get("additionalProperties")
            return f"map<string, {self.type(extra, hint) if isinstance(extra, dict) else 'Data'}>"
        return PLAIN.get(kind, "Data")

    def object(self, node: dict[str, Any], name: str) -> str:
        if name not in self.names:
            self.names[name] = full = self.prefix + re.sub(r"\W", "_", name)
            fields = ""
            for key, each in node["properties"].items():
                kind = self.type(each, f"{name}_{key}")
                optional = key not in node.get("required", []) and not kind.endswith("?")
                fields += f"  {key} ({kind}){'?' if optional else ''}\n"
            self.classes[full] = f"class {full} {{\n{fields}}}\n"
        return self.names[name]


def generate() -> None:
    """Writes the project and runs `baml-cli generate`."""
    lines = [HEAD.format(version=version("baml-py"))]
    for name in json.loads(SCHEMAS.read_text())["schemas"]:
        schema = adapter_of(name).json_schema()
        translator = Translator(name, schema)
        root = translator.type(schema, name) if schema else "(map<string, Data> | Data[])"
        function = "F_" + re.sub(r"\W", "_", name)
        lines += translator.classes.values()
        lines.append(
            f"function {function}(t: string) -> {root} {{\n  client Nobody\n"
            '  prompt #"{{ t }} {{ ctx.output_format }}"#\n}\n'
        )
    source = PROJECT / "baml_src"
    source.mkdir(parents=True, exist_ok=True)
    (source / "main.baml").write_text("\n".join(lines))
    command = Path(sys.executable).parent / "baml-cli"
    subprocess.run([str(command), "generate"], cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)


def client() -> Any:
    os.environ.setdefault("BAML_LOG", "off")
    sys.path.insert(0, str(PROJECT))
    from baml_client import b

    return b.parse


if __name__ == "__main__":
    generate()
