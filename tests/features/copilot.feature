Feature: The shipped copilot over HTTP, with its tools at services behind a port

  Background:
    Given the copilot of the example, its operator's policy and an office of four services

  # AC-RL-1: bounds
  @003.loop.bounds @003.accept.bounds
  Scenario: A copilot that searches without end stops after five searches
    Given a model that searches Jira three times in each reply
    When the EDITOR sends a message
    Then Jira was searched 5 times and the model was asked at most 8 times
    And the stream ends with an error and "done"

  # AC-RL-1: unknown tools
  @003.loop.tool-not-found @003.accept.unknown
  Scenario: A tool that the copilot lacks is an observation with the tools that it has
    Given a model that calls "jira_delete_everything" and then answers
    When the EDITOR sends a message
    Then the result of "jira_delete_everything" is a failure that names "jira_search"
    And the run is finished

  # AC-RL-1: roles
  @003.tools.role @003.tools.role.not-executed @003.accept.roles
  Scenario: A VIEWER's copilot reads and its write is blocked
    Given a model that reads SHOP-101, adds a label to it and then answers
    When the VIEWER sends a message
    Then the read has a result and the write is denied
    And no service has received a change
    And the run is finished

  # react.tools.role-enforcement: a role that is not enough for one tool
  @003.tools.role
  Scenario: An EDITOR's copilot may not merge
    Given a model that merges pull request 78 and then answers
    When the EDITOR sends a message
    Then the result of "github_merge_pr" is denied because of the role ADMIN
    And no service has received a change

  # react.registry.read-tools-count
  @003.registry.reads @003.registry.reads.services
  Scenario: The seven read tools reach their services without a question
    Given a model that calls the seven read tools over two messages
    When the VIEWER sends two messages
    Then the seven read tools have succeeded without a confirmation
    And Jira, GitHub, Confluence and Jenkins have answered

  # react.registry.write-tools-count
  @003.registry.writes @003.registry.writes.confirmation
  Scenario: The list of agents shows the writes that require a confirmation
    When the EDITOR reads the list of agents
    Then no read requires a confirmation
    And 13 of 16 writes require one, and the other three are reversible

  # react.tools.tier3-pauses-loop
  @003.tools.tier3.pending @003.tools.tier3.pause @003.registry.writes.confirmation
  Scenario: A transition waits for another user and then happens once
    Given a model that reopens SHOP-101 and then answers
    And a second EDITOR who approves
    When the EDITOR sends a message
    Then the stream has a confirmation request with its flag, a preview and a digest
    And SHOP-101 was "Done" until the decision
    And afterwards SHOP-101 is "Reopened" by one change

  # react.tools.tier3-pauses-loop: the other answer
  @003.tools.tier3.pending
  Scenario: A transition that is denied never happens
    Given a model that reopens SHOP-101 and then answers
    And a second EDITOR who denies
    When the EDITOR sends a message
    Then afterwards SHOP-101 is "Done" and no service has received a change

  # react.tools.tier1-auto-execute
  @003.tools.tier1
  Scenario: A label is added at once, with the event of an automatic change
    Given a model that reads SHOP-101, adds a label to it and then answers
    When the EDITOR sends a message
    Then the stream has "autonomous_action" of "jira_add_label" and no confirmation request
    And SHOP-101 has the label
