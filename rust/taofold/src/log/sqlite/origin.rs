//! Whose a log's file is: only one of this user on this machine is opened.
//!
//! A log that came with a cloned repository holds approvals of another person. Two things tell it
//! from our own: the machine's id, kept as a hash, and a mark beside the content that is not copied
//! with it, an extended attribute that names the file by its number on its file system.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use blake2::digest::consts::U16;
use blake2::{Blake2b, Digest};

use crate::content::hex;

const SOURCES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
const ATTRIBUTE: &str = "user.taofold";
/// Images are built with "uninitialized" in place of an id.
const SHORTEST_ID: usize = 16;

type Notes = BTreeMap<String, String>;

fn machine() -> Option<String> {
    SOURCES.iter().find_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        let text = text.trim();
        (text.is_ascii() && text.len() >= SHORTEST_ID).then(|| text.to_owned())
    })
}

fn fingerprint(text: &str) -> String {
    let user = rustix::process::getuid().as_raw();
    hex(&Blake2b::<U16>::digest(format!("{user}@{text}")))
}

/// Returns a fingerprint of this user on this machine; empty if the machine has no id.
pub(super) fn creator() -> String {
    machine().map_or_else(String::new, |id| fingerprint(&id))
}

/// Whether the log at `path`, which notes this about itself, is this user's.
pub(super) fn ours(path: &Path, notes: &Notes) -> bool {
    let own = match machine() {
        Some(id) => fingerprint(&id),
        // Where a machine has no id, its name was noted.
        None => fingerprint(&rustix::system::uname().nodename().to_string_lossy()),
    };
    notes.get("owner") == Some(&own) || unmoved(path, notes)
}

/// Returns what the log at `path` notes about itself to be ours from now on. Marks the file.
pub(super) fn mark_as_ours(path: &Path, notes: &Notes) -> std::io::Result<Notes> {
    let mut fresh = Notes::from([("owner".to_owned(), creator())]);
    if unmoved(path, notes) {
        return Ok(fresh);
    }
    let token = hex(&super::random()?);
    let inode = fs::metadata(path)?.ino();
    // A file system without attributes keeps no mark: then the file's number counts.
    let _ = rustix::fs::setxattr(
        path,
        ATTRIBUTE,
        seal(inode, &token).as_bytes(),
        rustix::fs::XattrFlags::empty(),
    );
    fresh.insert("mark".to_owned(), token);
    fresh.insert("inode".to_owned(), inode.to_string());
    Ok(fresh)
}

/// Marks the -wal file beside a log as written by this user, before anything is in it.
pub(super) fn mark_wal(wal: &Path) {
    if let Ok(metadata) = fs::metadata(wal) {
        // A file system without attributes keeps no mark.
        let _ = rustix::fs::setxattr(
            wal,
            ATTRIBUTE,
            seal(metadata.ino(), "").as_bytes(),
            rustix::fs::XattrFlags::empty(),
        );
    }
}

/// Whether the -wal file was written here. An empty one says nothing; others must bear the mark.
pub(super) fn wal_is_ours(wal: &Path) -> bool {
    let Ok(metadata) = fs::metadata(wal) else {
        return true;
    };
    if metadata.len() == 0 {
        return true;
    }
    let mut value = [0_u8; 64];
    match rustix::fs::getxattr(wal, ATTRIBUTE, &mut value[..]) {
        Ok(length) => value.get(..length) == Some(seal(metadata.ino(), "").as_bytes()),
        Err(_) => !markable(wal),
    }
}

/// Whether it is the very file that this user marked, and no copy of it.
fn unmoved(path: &Path, notes: &Notes) -> bool {
    let (Some(token), Ok(metadata)) = (notes.get("mark"), fs::metadata(path)) else {
        return false;
    };
    let inode = metadata.ino();
    if token.is_empty() || notes.get("inode") != Some(&inode.to_string()) {
        return false;
    }
    let mut value = [0_u8; 64];
    match rustix::fs::getxattr(path, ATTRIBUTE, &mut value[..]) {
        Ok(length) => value.get(..length) == Some(seal(inode, token).as_bytes()),
        // The mark is gone though this file system keeps marks: the file was copied.
        Err(_) => !markable(path),
    }
}

fn markable(path: &Path) -> bool {
    let probe = format!("{ATTRIBUTE}.probe");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, probe.as_str(), b"", flags).is_ok()
        && rustix::fs::removexattr(path, probe.as_str()).is_ok()
}

fn seal(inode: u64, token: &str) -> String {
    fingerprint(&format!("{inode}:{token}"))
}
