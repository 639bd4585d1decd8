//! The arguments of every command.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Agents you can trust and replay. Results go to standard output, the rest to standard error.
///
/// Exit codes: 0 success, 1 goal not reached, 2 usage or configuration, 3 waiting for an answer,
/// 130 interrupted.
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
    /// Lists and answers pending approvals. ID is RUN:SEQ, or a run with one question.
    #[command(subcommand)]
    Approvals(Approvals),
}

/// The approver of a run's calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approve {
    /// Ask at this terminal, or wait if there is none.
    #[default]
    Ask,
    /// Approve without asking.
    All,
    /// Leave the run waiting for `taofold-rs approvals`.
    Wait,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Agent file (.yaml), then the goal in words; - reads the goal from standard input.
    #[arg(value_name = "AGENT GOAL", num_args = 1..=2)]
    pub(crate) arguments: Vec<String>,
    /// Agent file, in place of the first argument.
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// PROVIDER:NAME. Replaces every model that the agent names.
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// Set `state.KEY` of a flow before it starts. VALUE is read as JSON, else as text.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) values: Vec<String>,
    /// Tags the run.
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<String>,
    /// conservative, balanced or autonomous. Replaces the autonomy in the agent's policy.
    #[arg(long, value_name = "DIAL")]
    pub(crate) autonomy: Option<String>,
    /// Ask the model again, once per turn, if a reply breaks a rule of the loop.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Maximum number of steps.
    #[arg(long)]
    pub(crate) steps: Option<u64>,
    /// Maximum number of tool calls.
    #[arg(long)]
    pub(crate) tool_calls: Option<u64>,
    /// Maximum seconds of active time.
    #[arg(long)]
    pub(crate) seconds: Option<f64>,
    /// Maximum number of tokens.
    #[arg(long)]
    pub(crate) tokens: Option<u64>,
    /// Maximum US dollars.
    #[arg(long)]
    pub(crate) usd: Option<f64>,
    /// Folder in which the built-in tools work. Default: the current one.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) drive: Drive,
}

/// Options of commands that drive a run.
#[derive(Debug, Args)]
pub(crate) struct Drive {
    /// The approver.
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
        /// Only runs with this status.
        #[arg(long, default_value = "")]
        status: String,
        /// Maximum number of runs.
        #[arg(long, short = 'n', default_value_t = 30)]
        limit: usize,
        /// Prints only the result, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows the state of a run and its steps.
    Show {
        /// The run's id, its beginning, or `last`.
        run: String,
        /// Prints only the result, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows every event of a run on one line; with --json as NDJSON.
    Log {
        /// The run's id, its beginning, or `last`.
        run: String,
        /// Prints only the result, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Prints a run as NDJSON, for another log.
    Export {
        /// The run's id, its beginning, or `last`.
        run: String,
    },
    /// Continues a run that waits, was interrupted, was cancelled or has failed.
    Resume {
        /// The run's id, its beginning, or `last`.
        run: String,
        /// Agent file to use in place of the recorded one.
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// PROVIDER:NAME. Replaces every model that the agent names.
        #[arg(long, short)]
        model: Option<String>,
        /// Options of driving.
        #[command(flatten)]
        drive: Drive,
    },
    /// Derives a run again without model, tools or network; exit code 1 at the first difference.
    Replay {
        /// The run's id, its beginning, or `last`.
        run: String,
        /// Agent file to use in place of the recorded one.
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// Prints only the result, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Sends the model a message that it reads at its next turn.
    Steer {
        /// The run's id, its beginning, or `last`.
        run: String,
        /// The message.
        text: String,
    },
    /// Asks a run to stop; one that waits ends at once.
    Cancel {
        /// The run's id, its beginning, or `last`.
        run: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Approvals {
    /// Lists pending actions and questions of all runs.
    List {
        /// Only those of this run.
        run: Option<String>,
        /// Prints only the result, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Approves pending actions, or answers a question.
    Approve {
        /// RUN:SEQ, or RUN if it has one question.
        #[arg(required = true)]
        ids: Vec<String>,
        /// Run the call with these parameters instead.
        #[arg(long, value_name = "JSON")]
        parameters: Option<String>,
        /// The answer to a question.
        #[arg(long, value_name = "TEXT")]
        answer: Option<String>,
        /// The call had already happened before the crash.
        #[arg(long)]
        done: bool,
        /// An explanation for the log.
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Refuses pending actions.
    Deny {
        /// RUN:SEQ, or RUN if it has one question.
        #[arg(required = true)]
        ids: Vec<String>,
        /// An explanation for the model and the log.
        #[arg(long, default_value = "")]
        reason: String,
    },
}
