"""The registry of patterns as it is kept: `stores` hold facts and tables, `json_files` exports."""
