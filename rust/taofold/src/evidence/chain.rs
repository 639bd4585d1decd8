//! Hash chains over the records of a run.
//!
//! ```text
//! leaf(n)  = SHA-256(canonical({"at", "event", "run", "schema", "seq"} of record n))
//! link(n)  = SHA-256(link(n - 1) || leaf(n))
//! link(-1) = SHA-256("taofold chain 1\n" || log id || "\n" || run id)
//! ```

use sha2::{Digest, Sha256};

use super::canonical::canonical;
use crate::errors::LogError;
use crate::events::{Record, SCHEMA_VERSION};

/// The length of a hash in bytes.
const BYTES: usize = 32;

/// A SHA-256 hash: a leaf or a link.
pub(crate) type Hash = [u8; BYTES];

/// Returns the link before the first record of `run` in the log with this id.
pub(crate) fn genesis(log: &str, run: &str) -> Hash {
    Sha256::digest(format!("taofold chain 1\n{log}\n{run}")).into()
}

/// Returns the hash of a record, whose event is stored as `body`.
///
/// # Errors
///
/// [`LogError::Format`] if the event has no canonical form.
pub(crate) fn leaf(record: &Record, body: &str) -> Result<Hash, LogError> {
    let failed = |error: serde_json::Error| LogError::Format {
        message: format!(
            "record {} of run {:?} cannot be written as JSON: {error}. Nothing was written",
            record.seq, record.run
        ),
    };
    let event = canonical(body).map_err(failed)?;
    let run = serde_json::to_string(&record.run).map_err(failed)?;
    // The keys of a record are in the canonical order, so only the event must be sorted.
    let text = format!(
        r#"{{"at":{},"event":{event},"run":{run},"schema":{SCHEMA_VERSION},"seq":{}}}"#,
        record.at, record.seq
    );
    Ok(Sha256::digest(text).into())
}

/// Returns the link of the record with this leaf, after the link `previous`.
pub(crate) fn link(previous: &Hash, leaf: &Hash) -> Hash {
    Sha256::new()
        .chain_update(previous)
        .chain_update(leaf)
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::hex;
    use crate::events::decode;

    #[derive(serde::Deserialize)]
    struct Vectors {
        chain: Chain,
    }

    #[derive(serde::Deserialize)]
    struct Chain {
        log: String,
        run: String,
        records: Vec<Stored>,
    }

    #[derive(serde::Deserialize)]
    struct Stored {
        at: i64,
        body: String,
        link: String,
    }

    #[test]
    fn the_shared_chain_has_the_links_of_python() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../conformance/evidence.json"
        );
        let text = std::fs::read_to_string(file).unwrap();
        let Vectors { chain } = serde_json::from_str(&text).unwrap();
        let mut last = genesis(&chain.log, &chain.run);
        for (seq, stored) in (0..).zip(chain.records) {
            let (event, elapsed) = decode(&stored.body).unwrap();
            let record = Record {
                run: chain.run.clone(),
                seq,
                at: stored.at,
                elapsed,
                event,
            };
            last = link(&last, &leaf(&record, &stored.body).unwrap());
            assert_eq!(hex(&last), stored.link, "record {seq}");
        }
    }
}
