"""The text forms of a run: NDJSON (lossless), TAO YAML and ReAct JSON, written and read.

`export` chooses one by name; each has a module. `yaml_document` reads YAML that is not ours.
"""
