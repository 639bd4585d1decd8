Feature: The agentic ReAct loop, over HTTP with a token for each person

  Background:
    Given a server that knows the tokens of an EDITOR and of a USER

  # react.loop.max-iterations
  @RCT-01
  Scenario: A loop that never comes to an end stops at eight model calls with an error event
    Given a model that calls a tool forever and never answers
    When the EDITOR sends a message
    Then the model was asked at most 8 times
    And an "error" event with the code "max_tool_calls" comes before "done"
    And every limit is told once

  # react.loop.max-tool-calls
  @RCT-02
  @003.loop.max-tool-calls
  Scenario: At most five tools run for one message
    Given a model that calls three tools at once, again and again
    When the EDITOR sends a message
    Then exactly 5 tools have run
    And the model was asked at most 8 times
    And a tool result is refused because of the limit

  # react.loop.max-tool-calls, inside a batch
  @RCT-03
  @003.loop.max-tool-calls.batch
  Scenario: After four calls only one of four more runs
    Given a model that calls one tool four times and then four at once
    When the EDITOR sends a message
    Then exactly 5 tools have run
    And three calls of the last batch are refused because of the limit

  # react.loop.tool-not-found-graceful
  @RCT-05
  @003.loop.tool-not-found @003.accept.unknown
  Scenario: An unknown tool is a message to the model and the loop goes on
    Given a model that calls a tool nobody has and then answers
    When the EDITOR sends a message
    Then a tool result names the tools there are
    And the run is finished with the answer "forty-two"

  # react.loop.no-tool-calls-is-answer
  @RCT-06
  @003.loop.no-tool-calls
  Scenario: A reply without a tool call is the answer
    Given a model that replies "It is forty-two." without any call
    When the EDITOR sends a message
    Then the model was asked exactly once
    And the run is finished with the answer "It is forty-two."

  # react.tools.role-enforcement, AC-RL-1
  @RCT-07
  @003.tools.role @003.tools.role.not-executed @003.accept.roles
  Scenario: A tool that needs a higher role does not run
    Given a model that edits a page and then answers
    And a policy by which only an ADMIN edits
    When the USER sends a message
    Then no tool has run
    And a tool result says "access denied"
    And the run is finished with the answer "forty-two"

  # react.tools.role-enforcement: the same call by somebody who may
  @RCT-07
  Scenario: The same tool asks for an editor's word and then runs
    Given a model that edits a page and then answers
    When the EDITOR sends a message
    Then the run waits for a confirmation of "edit"
    And no tool has run

  # react.tools.tier1-auto-execute
  @RCT-09
  @003.tools.tier1
  Scenario: A tool of tier 1 that writes runs at once and says so
    Given a model that adds a label and then answers
    When the EDITOR sends a message
    Then exactly 1 tool has run
    And there is one "autonomous_action" event and no "confirmation_request" event

  # react.tools.tier3-pauses-loop
  @RCT-10 @RCT-14
  @003.tools.tier3.pending @003.tools.tier3.pause @003.tools.role.enough
  Scenario: A tool of tier 3 creates a pending action and the loop pauses
    Given a model that publishes a text and then answers
    When the EDITOR sends a message
    Then the run waits for a confirmation of "publish"
    And no tool has run
    And after the EDITOR approves it 1 tool has run and the answer is "forty-two"

  # react.streaming.event-types, react.streaming.timestamps
  @RCT-06 @RCT-20
  @003.stream.sse @003.stream.thinking @003.stream.tool_start @003.stream.tool_result @003.stream.done @003.stream.timestamps
  Scenario: The stream has the events of the contract, each with a time
    Given a model that looks around and then answers
    When the EDITOR sends a message
    Then the events "thinking, tool_start, tool_result, answer, done" come in this order
    And every event has a timestamp
    And the answer's chunks add up to the answer

  # react.streaming.event-types: the event of a failure
  @RCT-22
  @003.stream.error
  Scenario: A provider that fails is an error event
    Given a model whose provider is down
    When the EDITOR sends a message
    Then the events "error, done" come in this order

  # react.streaming.ui-context-injection
  @RCT-21
  @003.stream.ui-context
  Scenario: What the user interface shows stands before the message
    Given a model that replies "It is forty-two." without any call
    When the EDITOR sends a message with the UI context "page: board 7"
    Then the model read "[UI Context: page: board 7]" before the message

  # react.registry.read-tools-count, react.registry.write-tools-count
  @RCT-26
  @003.registry.reads @003.registry.writes
  Scenario: The registry of the example has the read tools and the write tools
    Given the tools of the example
    Then these read and ask nobody: "jira_search, jira_get, github_get_commit, github_get_pr, confluence_search, jenkins_get_status, dashboard_metrics"
    And at least 6 others write and ask or say that they ran
