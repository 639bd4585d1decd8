//! The command line of taofold in Rust: `taofold-rs`.
//!
//! Results go to standard output, prose to standard error; `--json` prints only the result. Exit
//! codes, options and JSON have the form of the Python runtime's `taofold`. Both programs work on
//! the same log: either one can finish a run that waits in the other.

mod arguments;
mod commands;
mod guard;
mod output;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Cli;
use crate::output::{Failure, say};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            guard::refuse(&cli.command).and_then(|()| runtime.block_on(commands::run(cli)))
        }
        Err(error) => Err(Failure::usage(error.to_string())),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            say(&format!("error: {}", failure.message));
            failure.code
        }
    }
}
