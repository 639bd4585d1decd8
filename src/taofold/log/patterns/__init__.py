"""Storage of the pattern registry: `stores` has facts and tables, `json_files` has exports."""
