//! Runs a program for an agent, contained with bubblewrap where possible, with bounded output.
//!
//! A contained command can write only to the work root. `.git` is read-only and `.taofold` is
//! empty. The home directory and the network do not exist, and all processes end with the command.
//! Without containment a command has the rights of the user who started the agent. Such a tool has
//! tier 3, and each of its results contains "not contained".

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::process::Command;

use super::syscall_filter;
use crate::json::Value;
use crate::process::Group;
use crate::values::{Observation, ObservationStatus};

/// The variables that a command inherits; all others may be secrets.
const ALLOWED: [&str; 5] = [
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
];
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const HOME: &str = "/tmp/home";
const SYSTEM: [&str; 8] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
];
const ETC: [&str; 9] = [
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "ssl",
    "ca-certificates",
    "pki",
];
/// The maximum output in bytes. A program that prints more is stopped.
const MOST_BYTES: usize = 64_000_000;
/// The number of characters of an output that are shown, from its beginning and its end.
const SHOWN: usize = 12_000;
/// The maximum number of names to cover. A command with more does not start.
const MOST_NAMES: usize = 1000;
const KEY_LINE: usize = 200;

/// The environment in which commands run.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    root: PathBuf,
    contained: bool,
    /// Protected folders and files, which are hidden from all commands.
    reserved: Vec<PathBuf>,
    path: String,
}

/// Returns the system call filter for this processor.
fn filter() -> &'static [u8] {
    static FILTER: OnceLock<Vec<u8>> = OnceLock::new();
    FILTER.get_or_init(|| syscall_filter::program(std::env::consts::ARCH))
}

/// Returns the reason why commands cannot be contained here; `None` if they can.
///
/// A trial run determines it once.
pub(super) fn why_not() -> Option<&'static str> {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let Some(bwrap) = program("bwrap") else {
            return Some("bubblewrap (bwrap) is not installed".to_owned());
        };
        let options = ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"];
        let mounts = [
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--",
            "true",
        ];
        let probe = std::process::Command::new(bwrap)
            .args(options)
            .args(mounts)
            .stdin(Stdio::null())
            .output();
        match probe {
            Ok(done) if done.status.success() => None,
            Ok(done) => Some(String::from_utf8_lossy(&done.stderr).into_owned()),
            Err(error) => Some(error.to_string()),
        }
    });
    reason.as_deref()
}

/// Returns a program in a system folder, because one on the `PATH` could be in the work root.
fn program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/local/bin"].iter();
    folders
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}

impl Shell {
    /// Returns the shell for the existing work root `root`.
    pub(super) fn new(root: &Path, reserved: Vec<PathBuf>) -> std::io::Result<Self> {
        let root = root.canonicalize()?;
        let inside = |path: &PathBuf| path.canonicalize().ok().filter(|it| it.starts_with(&root));
        Ok(Self {
            contained: why_not().is_none(),
            reserved: reserved.iter().filter_map(inside).collect(),
            path: std::env::var("PATH").unwrap_or_else(|_| PATH.to_owned()),
            root,
        })
    }

    /// Returns the shell of a system without containment.
    #[cfg(test)]
    pub(super) fn uncontained(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            contained: false,
            reserved: Vec::new(),
            path: PATH.to_owned(),
        }
    }

    pub(super) fn contained(&self) -> bool {
        self.contained
    }

    pub(super) fn label(&self) -> &'static str {
        if self.contained {
            "contained, no network"
        } else {
            "not contained"
        }
    }

    /// Runs a program with arguments in `folder` below the root, without a shell.
    pub(super) async fn run(
        &self,
        arguments: &[String],
        folder: &Path,
        timeout: Duration,
    ) -> Observation {
        if arguments.iter().any(|argument| argument.contains('\0')) {
            return Observation::failure("the command holds a NUL character");
        }
        let label = self.label();
        let (command, stubs) = match self.wrapped(arguments, folder) {
            Ok(wrapped) => wrapped,
            Err(error) => {
                return Observation::failure(format!(
                    "it cannot be contained: {error}; nothing was run"
                ));
            }
        };
        let begun = Instant::now();
        let ended = self.observed(&command, folder, timeout).await;
        drop(stubs);
        let seconds = begun.elapsed().as_secs_f64();
        match ended {
            Err(error) => Observation::failure(format!(
                "{:?} cannot be started: {error} ({label})",
                arguments.first().map_or("", String::as_str)
            )),
            Ok(Ended { text, code }) => {
                let text = excerpt(text.trim_end_matches('\n'));
                let (head, status) = match code {
                    Code::Exit(0) => ("exit code 0".to_owned(), ObservationStatus::Success),
                    Code::Exit(code) => (format!("exit code {code}"), ObservationStatus::Failure),
                    Code::Signal(signal) => (
                        format!("killed by signal {signal}"),
                        ObservationStatus::Failure,
                    ),
                    Code::Flood => {
                        let head =
                            format!("it printed more than {MOST_BYTES} bytes and was stopped");
                        (head, ObservationStatus::Failure)
                    }
                    Code::Timeout => {
                        let head = format!("it took longer than {} s", timeout.as_secs_f64());
                        (head, ObservationStatus::Timeout)
                    }
                };
                let head = format!("{head}, {seconds:.1} s ({label})");
                let line = key_line(&text, status != ObservationStatus::Success);
                Observation {
                    extraction: if line.is_empty() { head.clone() } else { line },
                    result: Value::String(format!("{head}\n{text}")),
                    status,
                    ..Observation::default()
                }
            }
        }
    }

    /// Returns standard input: empty, or the system call filter for bwrap.
    fn input(&self) -> std::io::Result<Stdio> {
        if !self.contained || filter().is_empty() {
            return Ok(Stdio::null());
        }
        let held = rustix::fs::memfd_create("taofold", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut file = std::fs::File::from(held);
        file.write_all(filter())?;
        file.rewind()?;
        Ok(file.into())
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn environment(&self) -> BTreeMap<&'static str, String> {
        let mut variables = BTreeMap::from([
            ("PATH", self.path.clone()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TERM", "dumb".to_owned()),
            ("NO_COLOR", "1".to_owned()),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
            ("HOME", HOME.to_owned()),
            ("TMPDIR", "/tmp".to_owned()),
        ]);
        for name in ALLOWED {
            if let Ok(value) = std::env::var(name) {
                variables.insert(name, value);
            }
        }
        if !self.contained {
            // The home directory must exist, and the user's own holds secrets.
            variables.insert("HOME", "/tmp".to_owned());
            // The command has the user's rights, but must not approve anything.
            variables.insert("TAOFOLD_STARTED_BY", "run_command".to_owned());
        }
        variables
    }

    /// Returns the complete command and the values that must live as long as it runs.
    fn wrapped(
        &self,
        arguments: &[String],
        folder: &Path,
    ) -> std::io::Result<(Vec<OsString>, Vec<Stub>)> {
        let plain = arguments.iter().map(OsString::from);
        if !self.contained {
            return Ok((plain.collect(), Vec::new()));
        }
        let bwrap = program("bwrap").ok_or_else(|| std::io::Error::other("bwrap is gone"))?;
        let mut options: Vec<OsString> = Vec::new();
        let mut put = |words: &[&std::ffi::OsStr]| options.extend(words.iter().map(OsString::from));
        let filtered = !filter().is_empty();
        if filtered {
            // The shell moves the filter from standard input to the descriptor that bwrap reads.
            for word in ["/bin/sh", "-c", "exec \"$@\" 3<&0 0</dev/null", "sh"] {
                put(&[word.as_ref()]);
            }
        }
        put(&[bwrap.as_os_str()]);
        if filtered {
            put(&["--seccomp".as_ref(), "3".as_ref()]);
        }
        for word in [
            "--unshare-all",
            "--die-with-parent",
            "--new-session",
            "--cap-drop",
            "ALL",
        ] {
            put(&[word.as_ref()]);
        }
        put(&["--hostname".as_ref(), "contained".as_ref()]);
        for part in SYSTEM {
            // On many systems /bin is a link to /usr/bin, which is kept as a link.
            match std::fs::read_link(part) {
                Ok(target) => put(&["--symlink".as_ref(), target.as_os_str(), part.as_ref()]),
                Err(_) => put(&["--ro-bind-try".as_ref(), part.as_ref(), part.as_ref()]),
            }
        }
        for name in ETC {
            let path = format!("/etc/{name}");
            put(&["--ro-bind-try".as_ref(), path.as_ref(), path.as_ref()]);
        }
        for (option, place) in [
            ("--proc", "/proc"),
            ("--dev", "/dev"),
            ("--tmpfs", "/tmp"),
            ("--dir", HOME),
        ] {
            put(&[option.as_ref(), place.as_ref()]);
        }
        let root = self.root.as_os_str();
        put(&["--bind".as_ref(), root, root]);
        // A missing file could be created by the command and trusted afterwards.
        let stubs: Vec<Stub> = [".git", ".taofold"]
            .iter()
            .filter_map(|name| Stub::make(self.root.join(name)).transpose())
            .collect::<std::io::Result<_>>()?;
        for (path, is_folder, cover) in covers(&self.root, &self.reserved)? {
            let path = path.as_os_str();
            match (cover, is_folder) {
                (Cover::ReadOnly, _) => put(&["--ro-bind".as_ref(), path, path]),
                (Cover::Hidden, true) => {
                    put(&["--tmpfs".as_ref(), path, "--remount-ro".as_ref(), path]);
                }
                (Cover::Hidden, false) => {
                    put(&["--ro-bind".as_ref(), "/dev/null".as_ref(), path]);
                }
            }
        }
        put(&["--chdir".as_ref(), folder.as_os_str(), "--".as_ref()]);
        options.extend(plain);
        Ok((options, stubs))
    }

    async fn observed(
        &self,
        command: &[OsString],
        folder: &Path,
        timeout: Duration,
    ) -> std::io::Result<Ended> {
        let (program, arguments) = command
            .split_first()
            .ok_or_else(|| std::io::Error::other("there is no program"))?;
        let (mut reader, writer) = std::io::pipe()?;
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(if self.contained { &self.root } else { folder })
            .env_clear()
            .envs(self.environment())
            .stdin(self.input()?)
            // One pipe for both streams keeps errors at their position.
            .stdout(writer.try_clone()?)
            .stderr(writer)
            // A separate group, so that background processes are killed with the command.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = Group(child.id());
        let output = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&output);
        let (full, flooded) = tokio::sync::oneshot::channel::<()>();
        let reading = tokio::task::spawn_blocking(move || {
            let mut chunk = vec![0; 1 << 16];
            while let Ok(count @ 1..) = reader.read(&mut chunk) {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.extend_from_slice(&chunk[..count]);
                if heard.len() > MOST_BYTES {
                    let _ = full.send(());
                    return;
                }
            }
        });
        let code = tokio::select! {
            status = child.wait() => Code::of(status?),
            Ok(()) = flooded => Code::Flood,
            () = tokio::time::sleep(timeout) => Code::Timeout,
        };
        // No process of the group continues, and the last holder closes the pipe.
        drop(group);
        let _ = child.kill().await;
        let _ = tokio::time::timeout(Duration::from_secs(1), reading).await;
        let bytes = std::mem::take(&mut *output.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Ended {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            code,
        })
    }
}

struct Ended {
    text: String,
    code: Code,
}

#[derive(Clone, Copy)]
enum Code {
    Exit(i32),
    Signal(i32),
    Flood,
    Timeout,
}

impl Code {
    fn of(status: std::process::ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exit(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }
}

/// A folder that was created to be covered. It is removed afterwards if it is still empty.
struct Stub(PathBuf);

impl Stub {
    fn make(path: PathBuf) -> std::io::Result<Option<Self>> {
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Some(Self(path))),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                // A mount would follow the link and cover its target.
                if path.is_symlink() {
                    let message = format!("{path:?} is a link and cannot be protected");
                    return Err(std::io::Error::other(message));
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        // The folder stays if another command uses it or if it has content.
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cover {
    ReadOnly,
    Hidden,
}

/// Returns the paths to cover below `root`, each folder before its content.
fn covers(root: &Path, reserved: &[PathBuf]) -> std::io::Result<Vec<(PathBuf, bool, Cover)>> {
    let mut found: Vec<(PathBuf, bool, Cover)> = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            // A command could make it readable.
            Err(_) => {
                found.push((folder, true, Cover::Hidden));
                continue;
            }
        };
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            // A mount over a link would cover its target, which may be outside.
            if kind.is_symlink() {
                continue;
            }
            let name = entry.file_name().to_string_lossy().to_lowercase();
            let path = entry.path();
            let hidden = name == ".taofold" || reserved.contains(&path);
            if hidden || name == ".git" {
                let cover = if hidden {
                    Cover::Hidden
                } else {
                    Cover::ReadOnly
                };
                found.push((path, kind.is_dir(), cover));
            } else if kind.is_dir() {
                left.push(path);
            }
            if found.len() > MOST_NAMES {
                let message = format!("there are more than {MOST_NAMES} names to protect");
                return Err(std::io::Error::other(message));
            }
        }
    }
    Ok(found)
}

/// Returns a long text without its middle.
fn excerpt(text: &str) -> String {
    let count = text.chars().count();
    if count <= SHOWN {
        return text.to_owned();
    }
    let half = SHOWN / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head}\n[… {} characters cut]\n{tail}", count - SHOWN)
}

/// Returns the most relevant line: the last one or, after a failure, the last one that names an
/// error.
fn key_line(text: &str, failed: bool) -> String {
    let mut lines = text
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let tells = |line: &&str| {
        let line = line.to_lowercase();
        ["error", "failed", "fatal", "panic"]
            .iter()
            .any(|word| line.contains(word))
    };
    let telling = failed.then(|| lines.clone().find(tells)).flatten();
    let line = telling.or_else(|| lines.next()).unwrap_or_default();
    line.chars().take(KEY_LINE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(root: &Path) -> Shell {
        Shell::new(root, Vec::new()).unwrap()
    }

    async fn sh(shell: &Shell, script: &str) -> Observation {
        let arguments = ["/bin/sh", "-c", script].map(str::to_owned);
        shell
            .run(&arguments, shell.root(), Duration::from_secs(20))
            .await
    }

    fn text(observation: &Observation) -> String {
        crate::json::render(&observation.result)
    }

    #[tokio::test]
    async fn a_command_has_a_bounded_time_and_nothing_of_it_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let shell = shell(folder.path());
        let arguments = [
            "/bin/sh",
            "-c",
            "echo begun; (sleep 30; touch late) & sleep 30",
        ];
        let begun = Instant::now();
        let observation = shell
            .run(
                &arguments.map(str::to_owned),
                folder.path(),
                Duration::from_millis(1500),
            )
            .await;
        assert_eq!(observation.status, ObservationStatus::Timeout);
        assert!(text(&observation).contains("begun"), "{observation:?}");
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(!folder.path().join("late").exists());
    }

    #[tokio::test]
    async fn a_command_sees_no_secret_of_the_environment_and_says_how_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let shell = shell(folder.path());
        let observation = sh(&shell, "env; exit 3").await;
        assert_eq!(observation.status, ObservationStatus::Failure);
        assert!(text(&observation).starts_with("exit code 3"));
        // Cargo sets many variables for its tests.
        assert!(!text(&observation).contains("CARGO_"), "{observation:?}");
    }

    #[tokio::test]
    async fn a_contained_command_cannot_reach_git_taofold_the_home_or_the_network() {
        if let Some(reason) = why_not() {
            // Without containment there is nothing to test; the reason states it.
            assert!(!reason.is_empty());
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("work");
        std::fs::create_dir_all(root.join("sub/.git")).unwrap();
        std::fs::create_dir_all(root.join(".taofold")).unwrap();
        std::fs::write(root.join(".taofold/runs.db"), "secret log").unwrap();
        std::fs::write(folder.path().join("outside"), "secret file").unwrap();
        let shell = shell(&root);
        let script = "echo ok > made; cat .taofold/runs.db; touch .taofold/x; touch sub/.git/hook; \
                      touch .git/hook; cat ../outside; ls /root /home; ls /sys/class/net; \
                      touch run; chmod 4755 run; exec 3<>/dev/tcp/127.0.0.1/1";
        let observation = sh(&shell, script).await;
        let said = text(&observation);
        assert!(!said.contains("secret"), "{said}");
        assert!(root.join("made").is_file());
        for name in [".taofold/x", "sub/.git/hook", ".git"] {
            assert!(!root.join(name).exists(), "{name}: {said}");
        }
        assert!(said.contains("contained, no network"));
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(root.join("run")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o6000, 0, "{said}");
    }
}
