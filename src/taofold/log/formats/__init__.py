"""The text formats of a run, for export and import: NDJSON (lossless), TAO YAML and ReAct JSON.

`export` selects one by name; each has a module. `yaml_document` reads foreign YAML.
"""
