//! Reads, writes and lists files under one directory and never outside of it.
//!
//! Every component of a path is opened relative to its parent directory with `O_NOFOLLOW`, so no
//! link is followed. A link created between a check and the use of a path has no effect, because
//! there is no such interval. A write creates a new file and renames it over the old one in the
//! same open directory. This module does not depend on tools.
//!
//! It cannot detect hard links to files outside, or directories that another user with outside
//! access moves away.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode, XattrFlags};
use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization;

use crate::json::json;
use crate::text::visible;
use crate::tools::literal;

const MARK: &str = "user.taofold.effect";
/// A name that is hidden from agents: it holds their log, policy and baselines.
const HIDDEN: &str = ".taofold";
/// A name that is read-only, because a hook planted there would run outside of the jail.
const PROTECTED: &str = ".git";

static SHORT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(.{1,6})~[0-9]{1,6}(?:\.(.{0,3}))?$").ok());

/// A directory tree. Its errors are messages for the model.
#[derive(Debug, Clone)]
pub(super) struct Jail {
    root: PathBuf,
    /// Protected folders and files below the root, as components.
    reserved: Vec<Vec<String>>,
}

/// A directory entry. Links are not followed.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) kind: Kind,
}

#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    Folder,
    File(u64),
    Link(String),
    Other,
}

impl Jail {
    /// Returns the jail at `root`, a real path, without the protected places.
    pub(super) fn new(root: PathBuf, reserved: &[PathBuf]) -> Self {
        let inside = |path: &PathBuf| {
            // For a place that does not exist yet, the nearest existing parent decides.
            let real = path.ancestors().find_map(|above| {
                let rest = path.strip_prefix(above).ok()?;
                Some(above.canonicalize().ok()?.join(rest))
            })?;
            let parts = names(real.strip_prefix(&root).ok()?);
            // A place that encloses the root itself is ignored, because the user chose the root.
            (!parts.is_empty()).then_some(parts)
        };
        let reserved = reserved.iter().filter_map(inside).collect();
        Self { root, reserved }
    }

    /// Returns the components of `path` below the root.
    ///
    /// Each path has exactly one spelling, so that approvers see where it leads.
    pub(super) fn parts(&self, path: &str, write: bool) -> Result<Vec<String>, String> {
        let shown = literal(&json!(path));
        let mut inner = path;
        // An absolute path below the root is accepted, because models copy paths from listings.
        if path.starts_with('/') {
            let root = self.root.to_string_lossy();
            let root = root.trim_end_matches('/');
            match path.strip_prefix(root) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => inner = rest,
                _ => {
                    return Err(format!(
                        "{shown} is outside the work root; use a path relative to it"
                    ));
                }
            }
        }
        let mut parts: Vec<String> = Vec::new();
        for part in inner.split('/') {
            match part {
                ".." if parts.is_empty() => {
                    return Err(format!("{shown} leads out of the work root"));
                }
                ".." => {
                    return Err(format!(
                        "{shown} goes back with '..': write the path without it"
                    ));
                }
                "" | "." => {}
                part => parts.push(part.to_owned()),
            }
        }
        if let Some(flaw) = misread(&parts, write) {
            return Err(format!("{shown} is no file name here: {flaw}"));
        }
        if any_same(&parts, HIDDEN) || self.is_reserved(&parts) {
            return Err(format!("{shown} belongs to the runtime and cannot be used"));
        }
        if write && any_same(&parts, PROTECTED) {
            return Err(format!("{shown} is read-only: {PROTECTED} is protected"));
        }
        Ok(parts)
    }

    fn is_reserved(&self, parts: &[String]) -> bool {
        self.reserved.iter().any(|place| {
            let Some((last, above)) = place.split_last() else {
                return false;
            };
            let within = parts.len() >= place.len()
                && above
                    .iter()
                    .zip(parts)
                    .all(|(one, name)| is_same_name(name, one));
            // Names with the file's name as a prefix belong to it: -wal, -journal, .lock.
            within && {
                let name = &parts[above.len()];
                let rest = plain_name(name);
                let rest = rest.strip_prefix(&plain_name(last));
                let begins = rest.is_some_and(|it| it.is_empty() || it.starts_with(['-', '.']));
                begins || is_same_name(name, last)
            }
        })
    }

    fn file_parts(&self, path: &str, write: bool) -> Result<Vec<String>, String> {
        let parts = self.parts(path, write)?;
        if parts.is_empty() || path.ends_with('/') {
            let shown = literal(&json!(path));
            return Err(format!("{shown} is a directory; name a file"));
        }
        Ok(parts)
    }

    /// Returns the open directory and creates missing ones if `create` is true.
    pub(super) fn folder(&self, parts: &[String], create: bool) -> Result<OwnedFd, String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = rustix::fs::open(&self.root, flags, Mode::empty())
            .map_err(|error| format!("the work root cannot be used: {error}"))?;
        for (index, name) in parts.iter().enumerate() {
            let path = parts[..=index].join("/");
            let mut opened = rustix::fs::openat(&folder, name, flags, Mode::empty());
            if opened.as_ref().err() == Some(&Errno::NOENT) {
                if !create {
                    let shown = literal(&json!(path));
                    return Err(format!("there is no directory {shown}"));
                }
                match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                    // Another process created it.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(refusal(&folder, name, &path, error)),
                }
                opened = rustix::fs::openat(&folder, name, flags, Mode::empty());
            }
            folder = opened.map_err(|error| refusal(&folder, name, &path, error))?;
        }
        Ok(folder)
    }

    fn open(&self, path: &str, parts: &[String]) -> Result<File, String> {
        let shown = literal(&json!(path));
        let (name, above) = parts.split_last().ok_or("name a file")?;
        let folder = self.folder(above, false)?;
        // Without O_NONBLOCK, a FIFO would block the tool until a writer opens it.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::openat(&folder, name, flags, Mode::empty());
        let opened = opened.map_err(|error| match error {
            Errno::NOENT => format!("there is no file {shown}"),
            error => refusal(&folder, name, path, error),
        })?;
        let status = rustix::fs::fstat(&opened).map_err(|error| format!("{shown}: {error}"))?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Ok(File::from(opened)),
            FileType::Directory => Err(format!("{shown} is a directory, not a file")),
            _ => Err(format!("{shown} is a device or pipe, not a file")),
        }
    }

    /// Returns the content of a regular file of at most `limit` bytes.
    pub(super) fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, String> {
        let parts = self.file_parts(path, false)?;
        let file = self.open(path, &parts)?;
        let shown = literal(&json!(path));
        let mut content = Vec::new();
        // The read is bounded, because the file may grow.
        let read = file.take(limit + 1).read_to_end(&mut content);
        read.map_err(|error| format!("{shown} cannot be used: {error}"))?;
        if content.len() as u64 > limit {
            return Err(format!("{shown} is larger than the limit of {limit} bytes"));
        }
        Ok(content)
    }

    /// Replaces or creates a regular file atomically. Returns true if it was created.
    ///
    /// `mark` becomes visible together with the content if the file system has extended attributes.
    pub(super) fn write(&self, path: &str, content: &[u8], mark: &str) -> Result<bool, String> {
        let parts = self.file_parts(path, true)?;
        let shown = literal(&json!(path));
        let (name, above) = parts.split_last().ok_or("name a file")?;
        let folder = self.folder(above, true)?;
        let mode = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => None,
            Err(error) => return Err(refusal(&folder, name, path, error)),
            Ok(status) => match FileType::from_raw_mode(status.st_mode) {
                // Without setuid and setgid bits, which new content must not inherit.
                FileType::RegularFile => Some(status.st_mode & 0o777),
                _ => return Err(refusal(&folder, name, path, Errno::ISDIR)),
            },
        };
        let short: String = name.chars().take(32).collect();
        let temporary = format!(".{short}.{}", unique());
        let written = put(&folder, &temporary, content, mark, mode);
        // After the sync: otherwise a power failure could leave the new name with an empty file.
        let renamed =
            written.and_then(|()| rustix::fs::renameat(&folder, &temporary, &folder, name));
        if let Err(error) = renamed {
            let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
            return Err(format!("{shown} cannot be used: {error}"));
        }
        Ok(mode.is_none())
    }

    /// Returns the mark of the last [`Jail::write`] of this file; empty for none.
    pub(super) fn mark(&self, path: &str) -> Result<String, String> {
        let parts = self.file_parts(path, false)?;
        let file = self.open(path, &parts)?;
        let mut held = vec![0; 4096];
        Ok(match rustix::fs::fgetxattr(&file, MARK, &mut held) {
            Ok(length) => String::from_utf8_lossy(&held[..length]).into_owned(),
            Err(_) => String::new(),
        })
    }

    /// Returns the entries of a directory that are not hidden, sorted by name.
    pub(super) fn entries(&self, parts: &[String]) -> Result<Vec<Entry>, String> {
        let folder = self.folder(parts, false)?;
        let wrong = |error: Errno| format!("{}: {error}", literal(&json!(parts.join("/"))));
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder).map_err(wrong)? {
            let name = entry
                .map_err(wrong)?
                .file_name()
                .to_string_lossy()
                .into_owned();
            let mut inner = parts.to_vec();
            inner.push(name.clone());
            let hidden = any_same(std::slice::from_ref(&name), HIDDEN) || self.is_reserved(&inner);
            if name != "." && name != ".." && !hidden {
                names.push((name, inner.join("/")));
            }
        }
        names.sort();
        let entry = |(name, path): (String, String)| {
            Some(Entry {
                kind: kind(&folder, &name)?,
                path,
            })
        };
        Ok(names.into_iter().filter_map(entry).collect())
    }

    /// Returns true if this path names an existing file.
    pub(super) fn exists(&self, parts: &[String]) -> bool {
        let Some((name, above)) = parts.split_last() else {
            return false;
        };
        self.folder(above, false)
            .is_ok_and(|folder| kind(&folder, name).is_some())
    }
}

fn put(
    folder: &OwnedFd,
    name: &str,
    content: &[u8],
    mark: &str,
    mode: Option<RawMode>,
) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o666))?;
    if let Some(mode) = mode {
        // The replacement keeps the old file's permissions, for example an executable bit.
        rustix::fs::fchmod(&opened, Mode::from_raw_mode(mode))?;
    }
    if !mark.is_empty() {
        let _ = rustix::fs::fsetxattr(&opened, MARK, mark.as_bytes(), XattrFlags::empty());
    }
    let mut file = File::from(opened);
    let number = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    file.write_all(content).map_err(number)?;
    file.sync_all().map_err(number)
}

fn kind(folder: &OwnedFd, name: &str) -> Option<Kind> {
    let status = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => Kind::Folder,
        FileType::RegularFile => Kind::File(u64::try_from(status.st_size).unwrap_or_default()),
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
            Kind::Link(target.to_string_lossy().into_owned())
        }
        _ => Kind::Other,
    })
}

fn refusal(folder: &impl AsFd, name: &str, path: &str, error: Errno) -> String {
    let shown = literal(&json!(path));
    let status = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    let kind = status.map(|status| FileType::from_raw_mode(status.st_mode));
    match kind {
        Ok(FileType::Symlink) => {
            let target = rustix::fs::readlinkat(folder, name, Vec::new()).unwrap_or_default();
            let target = literal(&json!(target.to_string_lossy()));
            format!("{shown} is a link to {target}; links are not followed")
        }
        Ok(FileType::RegularFile) if error == Errno::NOTDIR => {
            format!("{shown} is a file, not a directory")
        }
        _ => format!("{shown} cannot be used: {error}"),
    }
}

/// Returns a text that no other file name in the directory contains.
fn unique() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

fn names(path: &Path) -> Vec<String> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect()
}

/// Returns the reason why the names could be misread.
fn misread(parts: &[String], write: bool) -> Option<String> {
    parts.iter().find_map(|part| {
        if part.chars().any(char::is_control) {
            return Some("it holds a control character".to_owned());
        }
        if part.trim() != part {
            let shown = literal(&json!(part));
            return Some(format!("{shown} begins or ends with a blank"));
        }
        // An existing file may be read under such a name.
        let seen = visible(part);
        (write && seen != part.as_str()).then(|| format!("it holds an invisible character: {seen}"))
    })
}

fn any_same(parts: &[String], reserved: &str) -> bool {
    // A backslash separates names if the tree is checked out on Windows.
    parts
        .iter()
        .flat_map(|part| part.split('\\'))
        .any(|name| is_same_name(name, reserved))
}

/// Returns the same form for all names that some file system treats as equal.
///
/// macOS and Windows ignore case, HFS+ ignores invisible characters, and NTFS ignores dots and
/// spaces at the end.
fn plain_name(name: &str) -> String {
    let name = name.split(':').next().unwrap_or_default();
    let seen = |character: &char| {
        let mut buffer = [0; 4];
        let text: &str = character.encode_utf8(&mut buffer);
        visible(text) == text
    };
    let shown: String = name.nfkc().filter(seen).collect();
    shown.trim_end_matches(['.', ' ']).to_lowercase()
}

/// Returns true if some file system treats `name` as `reserved` or as its 8.3 short name.
fn is_same_name(name: &str, reserved: &str) -> bool {
    let plain = plain_name(name);
    if name == reserved || plain == plain_name(reserved) {
        return true;
    }
    let Some(short) = SHORT.as_ref().and_then(|short| short.captures(&plain)) else {
        return false;
    };
    // NTFS drops leading dots: GIT~1, TAOFOL~1. From the fifth similar name on, it keeps two
    // letters and writes four digits of a hash: TA1234~1.
    let plain = reserved.trim_start_matches('.').to_lowercase();
    let (stem, end) = plain.split_once('.').unwrap_or((&plain, ""));
    let stem: String = stem.chars().filter(|it| *it != ' ').collect();
    let first = |text: &str, count: usize| text.chars().take(count).collect::<String>();
    let hash = short[1].strip_prefix(&first(&stem, 2));
    let hashed = hash.is_some_and(|it| it.len() == 4 && it.chars().all(|c| c.is_ascii_hexdigit()));
    let ending = short.get(2).map_or("", |it| it.as_str());
    (short[1] == *first(&stem, 6) || hashed) && ending == first(end, 3)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn no_path_leads_out_of_the_jail_or_to_a_place_of_authority() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("inner")).unwrap();
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::write(root.join(".git/config"), "x").unwrap();
        symlink("/etc", root.join("inner/link")).unwrap();
        symlink("/etc/passwd", root.join("passwd")).unwrap();
        let log = root.join("runs.db");
        let jail = Jail::new(
            root.clone(),
            &[log, root.clone(), root.join("conf/taofold")],
        );
        for path in [
            "../x",
            "a/../b",
            "/etc/passwd",
            ".taofold/runs.db",
            ".TAOFOLD/x",
            "a/.taofold./x",
            "taofol~1/x",
            "TA12ef~1",
            "a\\.taofold",
            "runs.db",
            "RUNS.DB-wal",
            "conf/taofold/x",
            "x\u{1}",
            " x",
            ".taofold:x",
            ".tao\u{200d}fold",
            ".ｔaofold",
        ] {
            assert!(jail.parts(path, false).is_err(), "{path}");
            assert!(jail.write(path, b"x", "").is_err(), "{path}");
        }
        for path in [".git/hooks/x", "sub/.Git/x", "git~1/x", "a\u{202e}b"] {
            assert!(jail.write(path, b"x", "").is_err(), "{path}");
        }
        assert!(jail.read(".git/config", 9).is_ok());
        for path in ["inner/link/passwd", "passwd", "inner", "none/x"] {
            assert!(jail.read(path, 1_000_000).is_err(), "{path}");
        }
        assert!(jail.write("inner/link/x", b"x", "").is_err());
        assert!(jail.write("passwd", b"x", "").is_err());
        let absolute = root.join("inner/a").to_string_lossy().into_owned();
        assert!(jail.write(&absolute, b"x", "").unwrap());
        assert!(jail.read("inner/a", 0).is_err());
    }

    #[test]
    fn a_write_replaces_the_whole_file_and_keeps_its_mode_without_setuid() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let jail = Jail::new(root.clone(), &[]);
        assert!(jail.write("a/b/run.sh", b"one", "").unwrap());
        let path = root.join("a/b/run.sh");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
        assert!(!jail.write("a/b/run.sh", b"two", "r/1/0").unwrap());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
        assert_eq!(jail.read("a/b/run.sh", 9).unwrap(), b"two");
        let mark = jail.mark("a/b/run.sh").unwrap();
        assert!(mark.is_empty() || mark == "r/1/0");
        let names: Vec<String> = jail
            .entries(&["a".to_owned(), "b".to_owned()])
            .unwrap()
            .into_iter()
            .map(|entry| entry.path)
            .collect();
        assert_eq!(names, ["a/b/run.sh"]);
    }
}
