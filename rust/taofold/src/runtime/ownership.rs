//! The owner of a run: its name in the log, and a check that its process has ended.
//!
//! The name has the form of the Python runtime's: boot and pid namespace, pid, start time, the
//! origin of the process, and random bytes. For a process of another boot or namespace, only the
//! lease shows whether it lives.

use std::fs;
use std::sync::OnceLock;

use crate::content::hex;
use crate::log::sqlite::random;

fn read(path: &str) -> String {
    fs::read(path).map_or_else(
        |_| String::new(),
        |bytes| String::from_utf8_lossy(&bytes).trim().to_owned(),
    )
}

/// Returns the start time of a process in clock ticks since boot; empty if it has ended or is a
/// zombie.
fn start_time(pid: &str) -> String {
    let stat = read(&format!("/proc/{pid}/stat"));
    // Split at the last ")", because the name of a program may contain spaces and brackets.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or_else(Vec::new, |(_, rest)| rest.split_whitespace().collect());
    match (fields.first(), fields.get(19)) {
        (Some(&("Z" | "X")), _) | (_, None) => String::new(),
        (_, Some(started)) => (*started).to_owned(),
    }
}

fn here() -> &'static str {
    static HERE: OnceLock<String> = OnceLock::new();
    HERE.get_or_init(|| {
        let boot = read("/proc/sys/kernel/random/boot_id");
        let boot = if boot.is_empty() { "unknown" } else { &boot };
        let namespace = fs::read_link("/proc/self/ns/pid")
            .map_or_else(|_| "-".to_owned(), |it| it.to_string_lossy().into_owned());
        format!("{boot}/{namespace}")
    })
}

/// Returns the owner name of this process, which is the same for all its runs.
pub fn me() -> String {
    static ME: OnceLock<String> = OnceLock::new();
    ME.get_or_init(|| {
        let pid = std::process::id().to_string();
        let chance = random().map_or_else(|_| pid.clone(), |bytes| hex(&bytes[..4]));
        [here(), &pid, &start_time(&pid), "own", &chance].join("|")
    })
    .clone()
}

/// Returns true if the owner's process has certainly ended. A run without an owner counts as such.
pub fn gone(owner: &str) -> bool {
    if owner.is_empty() {
        return true;
    }
    let parts: Vec<&str> = owner.split('|').collect();
    match parts.as_slice() {
        // Without /proc the process cannot be checked, so only the lease counts.
        [place, pid, started, _, _] => {
            *place == here() && !started.is_empty() && start_time(pid) != *started
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there_and_one_with_another_start_time_is_gone() {
        let own = me();
        assert!(!gone(&own));
        let parts: Vec<&str> = own.split('|').collect();
        assert!(gone(
            &[parts[0], parts[1], "1", parts[3], parts[4]].join("|")
        ));
        assert!(!gone(
            &["another boot", parts[1], "1", parts[3], parts[4]].join("|")
        ));
        assert!(gone(""));
    }
}
