"""Reads The Edge Agent's YAML: a pure translation of its mapping into a flow file's mapping.

`recognition.is_foreign` recognises a file, and `translation.translated` returns the same document
in our form, with the place of each value in the source, and every construct that has no equivalent.
`graph` turns edges into `goto`, `nodes` translates one node, `texts` rewrites templates and
conditions, and `unsupported` names what stays out and the nearest thing. The compiler of
`taofold.files.flow` then reads the result like any other flow.

Nothing here imports, runs or renders anything.
"""
