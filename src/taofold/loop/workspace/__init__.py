"""A loop's files: `workspace` the work root, `snapshots` its states, `git` both stores."""
