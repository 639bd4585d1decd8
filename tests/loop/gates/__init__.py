"""Gates, protected files and workspaces of Ralph loops."""
