"""A test-operations copilot over a small local office: Jira, GitHub, Confluence, Jenkins."""
