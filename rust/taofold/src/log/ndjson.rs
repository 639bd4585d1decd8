//! A run as NDJSON: a header, then one line for each record. The format is lossless and serves for
//! exchange.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::errors::LogError;
use crate::events::{Record, SCHEMA_VERSION, decode, encode};
use crate::state::fold;

const FORMAT: &str = "taofold-ndjson";
const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u64,
    schema: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    run: String,
    seq: u64,
    time: String,
    at: i64,
    event: Box<RawValue>,
}

/// Returns the records as text, one line each after the header.
///
/// # Errors
///
/// [`LogError::Format`] if an event holds a value that JSON cannot represent.
pub fn export(records: &[Record]) -> Result<String, LogError> {
    let header = Header {
        format: FORMAT.to_owned(),
        version: VERSION,
        schema: SCHEMA_VERSION,
    };
    let mut text = line_of(&header)?;
    for record in records {
        let event = RawValue::from_string(encode(&record.event, record.elapsed)?)
            .map_err(|error| format_error(0, &error.to_string()))?;
        text += &line_of(&Line {
            run: record.run.clone(),
            seq: record.seq,
            time: iso(record.at),
            at: record.at,
            event,
        })?;
    }
    Ok(text)
}

fn line_of(value: &impl Serialize) -> Result<String, LogError> {
    let text = serde_json::to_string(value).map_err(|error| format_error(0, &error.to_string()))?;
    Ok(text + "\n")
}

/// Reads the records of an export.
///
/// # Errors
///
/// [`LogError::Newer`] if its schema is higher than this release's. [`LogError::Format`] with the
/// line number if a line is invalid, lines are missing, or the records form no run.
pub fn import(text: &str) -> Result<Vec<Record>, LogError> {
    let mut lines = text.split('\n');
    let header: Header = lines
        .next()
        .and_then(|line| serde_json::from_str(line).ok())
        .ok_or_else(|| format_error(1, "not a taofold export: it has no header"))?;
    if header.format != FORMAT || header.version != VERSION {
        let message = format!("format {:?} version {}", header.format, header.version);
        return Err(format_error(
            1,
            &format!("{message} is not {FORMAT:?} {VERSION}"),
        ));
    }
    if header.schema > SCHEMA_VERSION {
        return Err(LogError::Newer {
            found: header.schema,
            known: SCHEMA_VERSION,
        });
    }
    if header.schema < SCHEMA_VERSION {
        let message = format!("schema {} is too old for this runtime", header.schema);
        return Err(format_error(1, &message));
    }
    let mut records: Vec<Record> = Vec::new();
    let mut ended = false;
    for (number, line) in (2..).zip(lines) {
        if ended {
            return Err(format_error(number - 1, "an empty line in the middle"));
        }
        if line.is_empty() {
            ended = true;
            continue;
        }
        // Imported records are a run of this log, which has a chain of its own.
        if line.starts_with("{\"evidence\":") {
            continue;
        }
        if line.starts_with("{\"blob\":") {
            return Err(format_error(
                number,
                "this runtime keeps no blobs yet: export the run without media",
            ));
        }
        records.push(record(line, number, &records)?);
    }
    if !ended {
        let message = "the last line has no end: the export is cut off";
        return Err(format_error(records.len() as u64 + 1, message));
    }
    if records.is_empty() {
        return Err(format_error(2, "the export holds no records"));
    }
    fold(&records)?;
    Ok(records)
}

fn record(line: &str, number: u64, before: &[Record]) -> Result<Record, LogError> {
    let entry: Line = serde_json::from_str(line)
        .map_err(|error| format_error(number, &format!("not a record: {error}")))?;
    let (event, elapsed) =
        decode(entry.event.get()).map_err(|error| format_error(number, &error.to_string()))?;
    if entry.seq != before.len() as u64 {
        let message = format!("seq {} where {} must follow", entry.seq, before.len());
        return Err(format_error(number, &message));
    }
    if before.first().is_some_and(|first| first.run != entry.run) {
        return Err(format_error(number, "another run: export each by itself"));
    }
    // The readable time may have been edited, so both times must agree.
    if iso(entry.at) != entry.time {
        let message = format!("time {:?} is not at {}", entry.time, entry.at);
        return Err(format_error(number, &message));
    }
    Ok(Record {
        run: entry.run,
        seq: entry.seq,
        at: entry.at,
        elapsed,
        event,
    })
}

fn format_error(line: u64, message: &str) -> LogError {
    LogError::Format {
        message: format!("line {line}: {message}"),
    }
}

/// Returns milliseconds since the epoch as text in UTC: `2026-01-25T10:30:00.000Z`.
pub fn iso(at: i64) -> String {
    let (seconds, milliseconds) = (at.div_euclid(1000), at.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{milliseconds:03}Z",
        second % 60
    )
}

/// Returns year, month and day of a number of days since 1970-01-01.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Parked, RunStarted};

    fn records() -> Vec<Record> {
        let record = |seq, event| Record {
            run: "r1".into(),
            seq,
            at: 1_769_337_000_000 + i64::try_from(seq).unwrap(),
            elapsed: None,
            event,
        };
        vec![
            record(0, RunStarted::new("go").into()),
            record(1, Parked { reason: "x".into() }.into()),
        ]
    }

    #[test]
    fn an_export_has_the_documented_lines_and_reads_back() {
        let text = export(&records()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            r#"{"format":"taofold-ndjson","version":1,"schema":2}"#
        );
        assert_eq!(
            lines[1],
            r#"{"run":"r1","seq":0,"time":"2026-01-25T10:30:00.000Z","at":1769337000000,"event":{"e":"run_started","goal":"go"}}"#
        );
        assert_eq!(import(&text).unwrap(), records());
    }

    #[test]
    fn a_higher_schema_is_refused() {
        let text = export(&records())
            .unwrap()
            .replace(r#""schema":2"#, r#""schema":3"#);
        assert_eq!(import(&text), Err(LogError::Newer { found: 3, known: 2 }));
    }

    #[test]
    fn a_cut_export_a_gap_and_a_changed_time_are_refused() {
        let text = export(&records()).unwrap();
        assert!(import(text.trim_end()).is_err());
        assert!(import(&text.replace(r#""seq":1"#, r#""seq":2"#)).is_err());
        assert!(import(&text.replace("10:30:00.001", "10:31:00.001")).is_err());
        assert!(import(&text.replace(r#""e":"parked""#, r#""e":"slept""#)).is_err());
    }

    #[test]
    fn dates_around_leap_days_are_right() {
        assert_eq!(iso(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(iso(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
    }
}
