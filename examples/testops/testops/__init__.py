"""A rehearsal of the testops tools: an office that answers as the real services do, and a script.

`office` holds the services, `routing` the form of their operations, `jira_site`, `github_site`,
`confluence_site` and `jenkins_site` the operations, `queries` their search languages, `world` the
initial data, `served` the office as an application with a port, `rehearsal` an agent with a
scripted model.
"""
