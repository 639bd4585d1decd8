"""Tools for Jira, GitHub, Confluence and Jenkins: `tools: [testops]` in an agent file.

| module | contents |
|---|---|
| `settings` | the accounts, from environment variables |
| `client` | one HTTP request with credentials: bounds, rate limits, errors, escaped paths |
| `texts` | documents of the services as plain text, shortened |
| `jira`, `github`, `confluence`, `jenkins`, `dashboard` | the tools of each service |
| `tools` | tiers, roles, effects and previews of all tools |

The package is a guest of taofold, found by its entry point. It knows nothing about runs.
"""
