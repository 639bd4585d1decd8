//! The arguments of every command.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Agents one can trust and replay. Results go to standard output, the rest to standard error.
///
/// Exit codes: 0 success, 1 the goal was not reached, 2 usage or configuration, 3 waiting for a
/// person, 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "taofold-rs", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lets an agent work on a goal.
    Run(Run),
    /// Checks agent and flow files without running anything.
    Check(Check),
    /// Shows runs, and changes their course. RUN is an id, the beginning of one, or `last`.
    #[command(subcommand)]
    Runs(Runs),
    /// Lists and decides what waits for a person. ID is RUN:SEQ, or a run with one question.
    #[command(subcommand)]
    Approvals(Approvals),
}

/// Who approves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approve {
    /// The person at the terminal; without a terminal the run waits.
    #[default]
    Ask,
    /// No question is asked.
    All,
    /// The run waits.
    Wait,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Agent file (.yaml), and what to do; - reads the goal from standard input.
    #[arg(value_name = "AGENT GOAL", num_args = 1..=2)]
    pub(crate) arguments: Vec<String>,
    /// Agent file, in place of the first argument.
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// provider:model; takes the place of every model the agent names.
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// Starts with this in the run's state; VALUE is JSON if it can be read as such.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) values: Vec<String>,
    /// Tags the run.
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<String>,
    /// conservative, balanced or autonomous.
    #[arg(long, value_name = "DIAL")]
    pub(crate) autonomy: Option<String>,
    /// Asks the model again, once per turn, for what a reply lacks by the rules of the loop.
    #[arg(long)]
    pub(crate) strict: bool,
    /// At most so many steps.
    #[arg(long)]
    pub(crate) steps: Option<u64>,
    /// At most so many calls of tools.
    #[arg(long)]
    pub(crate) tool_calls: Option<u64>,
    /// At most so long.
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// At most so many tokens.
    #[arg(long)]
    pub(crate) tokens: Option<u64>,
    /// At most so many US dollars.
    #[arg(long)]
    pub(crate) usd: Option<f64>,
    /// Work root of tools (else here).
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) drive: Drive,
}

/// How a run is driven in front of a person.
#[derive(Debug, Args)]
pub(crate) struct Drive {
    /// Who approves.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) approve: Approve,
    /// Prints only the result, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows no trace.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Agent or flow files.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Prints only the result, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// Lists the runs of this project, newest first.
    List {
        /// Only these.
        #[arg(long, default_value = "")]
        status: String,
        /// At most so many.
        #[arg(long, short = 'n', default_value_t = 30)]
        limit: usize,
        /// Prints only the result, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows the state of a run and its steps.
    Show {
        /// The run.
        run: String,
        /// Prints only the result, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows every event of a run on one line; with --json as NDJSON.
    Log {
        /// The run.
        run: String,
        /// Prints only the result, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Prints a run as NDJSON, for another log.
    Export {
        /// The run.
        run: String,
    },
    /// Carries on a run that waits, was cut off, was cancelled or has failed.
    Resume {
        /// The run.
        run: String,
        /// Agent file, if the run does not say how its agent is made.
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// provider:model; takes the place of every model the agent names.
        #[arg(long, short)]
        model: Option<String>,
        /// How it is driven.
        #[command(flatten)]
        drive: Drive,
    },
    /// Derives a run again without model, tools or network; exit code 1 at the first difference.
    Replay {
        /// The run.
        run: String,
        /// Agent file, if the run does not say how its agent is made.
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// Prints only the result, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Sends the model a message that it reads at its next turn.
    Steer {
        /// The run.
        run: String,
        /// The message.
        text: String,
    },
    /// Asks a run to stop; one that waits ends at once.
    Cancel {
        /// The run.
        run: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Approvals {
    /// Lists actions and questions that wait, of all runs.
    List {
        /// Only of this run.
        run: Option<String>,
        /// Prints only the result, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Lets pending actions run, or answers a question.
    Approve {
        /// RUN:SEQ, or RUN if it has one question.
        #[arg(required = true)]
        ids: Vec<String>,
        /// Runs it with these instead.
        #[arg(long, value_name = "JSON")]
        parameters: Option<String>,
        /// The answer to a question.
        #[arg(long, value_name = "TEXT")]
        answer: Option<String>,
        /// It had already happened before the crash.
        #[arg(long)]
        done: bool,
        /// For the log.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Refuses pending actions.
    Deny {
        /// RUN:SEQ, or RUN if it has one question.
        #[arg(required = true)]
        ids: Vec<String>,
        /// The agent reads it.
        #[arg(long, default_value = "")]
        reason: String,
    },
}
