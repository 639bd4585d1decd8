//! Checks the origin of a log's file: only a file of this user on this machine is opened.
//!
//! A log from a cloned repository holds the approvals of another user. The content of a file cannot
//! prove its origin. The proof is a mark beside the content: an extended attribute that contains
//! the file's number and is not copied with the file. On file systems without attributes, a seal in
//! the file replaces the mark. The seal covers the number and is made with a secret in this user's
//! state folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use blake2::digest::consts::U16;
use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2b, Blake2bMac, Digest};

use super::open::store;
use crate::content::hex;
use crate::errors::LogError;
use crate::folders::state_folder;

const ATTRIBUTE: &str = "user.taofold";
const SECRET_BYTES: usize = 32;

type Notes = BTreeMap<String, String>;

/// Returns true if the log at `path`, with its notes, belongs to this user.
///
/// # Errors
///
/// The secret's file is a link, belongs to another user, or is readable by others.
pub(super) fn ours(path: &Path, notes: &Notes) -> Result<bool, LogError> {
    let Some(token) = notes.get("mark").filter(|it| !it.is_empty()) else {
        return Ok(false);
    };
    let Ok(inode) = fs::metadata(path).map(|it| it.ino()) else {
        return Ok(false);
    };
    if keeps_attributes(path) {
        return Ok(attribute(path) == mark(inode, token).as_bytes());
    }
    Ok(secret(false)?.is_some_and(|secret| {
        notes.get("owner").map(String::as_bytes) == Some(seal(inode, token, &secret).as_bytes())
    }))
}

/// Marks the file and returns the notes that identify the log as this user's.
///
/// # Errors
///
/// The file is missing, or the secret's file is a link, belongs to another user, or is readable by
/// others.
pub(super) fn mark_as_ours(path: &Path) -> Result<Notes, LogError> {
    let failed = |error: std::io::Error| store(path, &format!("cannot be marked: {error}"));
    let token = hex(&super::random().map_err(failed)?);
    let inode = fs::metadata(path).map_err(failed)?.ino();
    set_attribute(path, mark(inode, &token).as_bytes());
    let owner = secret(true)?.map_or_else(String::new, |it| seal(inode, &token, &it));
    Ok(Notes::from([
        ("mark".to_owned(), token),
        ("owner".to_owned(), owner),
    ]))
}

/// Marks the empty -wal file beside a log as written by this user.
pub(super) fn mark_wal(wal: &Path) {
    if let Ok(metadata) = fs::metadata(wal) {
        set_attribute(wal, mark(metadata.ino(), "").as_bytes());
    }
}

/// Returns true if the -wal file was written here. A non-empty file must have the mark.
pub(super) fn wal_is_ours(wal: &Path) -> bool {
    let Ok(metadata) = fs::metadata(wal) else {
        return true;
    };
    metadata.len() == 0
        || attribute(wal) == mark(metadata.ino(), "").as_bytes()
        // On a file system without attributes no -wal file can have a mark.
        || !keeps_attributes(wal)
}

/// Returns this user's secret; `None` if there is none or it cannot be stored.
fn secret(make: bool) -> Result<Option<Vec<u8>>, LogError> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let Some(folder) = state_folder(variable) else {
        return Ok(None);
    };
    let path = folder.join("logs").join("key");
    if make && !path.exists() && make_secret(&folder).is_err() {
        // With a read-only home folder, the mark beside the content has to suffice.
        return Ok(None);
    }
    let read = fs::symlink_metadata(&path).and_then(|it| Ok((it, fs::read(&path)?)));
    let (metadata, content) = match read {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(store(&path, &format!("cannot be read: {error}")));
        }
        Err(_) => return Ok(None),
    };
    let user = rustix::process::geteuid().as_raw();
    let own = metadata.is_file() && metadata.nlink() == 1 && [user, 0].contains(&metadata.uid());
    if !own || metadata.mode() & 0o077 != 0 {
        let message = "is not this user's alone: delete it, or chmod 600 it if it is yours";
        return Err(store(&path, message));
    }
    if content.len() != SECRET_BYTES {
        let message = "is damaged: delete it. Logs that are not recognised afterwards are \
                       accepted again by `taofold runs adopt`";
        return Err(store(&path, message));
    }
    Ok(Some(content))
}

/// Creates the secret. If another process creates it at the same time, that secret is kept.
fn make_secret(folder: &Path) -> std::io::Result<()> {
    let private = |path: &Path| {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
    };
    private(folder)?;
    let partial = folder.join(format!("logs.{}.part", hex(&super::random()?)));
    private(&partial)?;
    let written = write_secret(&partial.join("key"));
    // A rename replaces no folder that has content.
    let _ = fs::rename(&partial, folder.join("logs"));
    let _ = fs::remove_dir_all(&partial);
    written
}

fn write_secret(path: &Path) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    for _ in 0..2 {
        file.write_all(&super::random()?)?;
    }
    file.sync_all()
}

fn seal(inode: u64, token: &str, secret: &[u8]) -> String {
    // BLAKE2b accepts keys of up to 64 bytes, and the secret has 32.
    let Ok(mut keyed) = <Blake2bMac<U16> as KeyInit>::new_from_slice(secret) else {
        return String::new();
    };
    keyed.update(format!("{inode}:{token}").as_bytes());
    hex(&keyed.finalize().into_bytes())
}

fn mark(inode: u64, token: &str) -> String {
    let user = rustix::process::getuid().as_raw();
    hex(&Blake2b::<U16>::digest(format!("{user}@{inode}:{token}")))
}

fn attribute(path: &Path) -> Vec<u8> {
    let mut value = [0_u8; 64];
    match rustix::fs::getxattr(path, ATTRIBUTE, &mut value[..]) {
        Ok(length) => value.get(..length).unwrap_or_default().to_vec(),
        // The file system has no attributes, or the file has no mark.
        Err(_) => Vec::new(),
    }
}

fn set_attribute(path: &Path, value: &[u8]) {
    // A file system without attributes stores no mark.
    let _ = rustix::fs::setxattr(path, ATTRIBUTE, value, rustix::fs::XattrFlags::empty());
}

fn keeps_attributes(path: &Path) -> bool {
    let probe = format!("{ATTRIBUTE}.probe");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, probe.as_str(), b"", flags).is_ok()
        && rustix::fs::removexattr(path, probe.as_str()).is_ok()
}
