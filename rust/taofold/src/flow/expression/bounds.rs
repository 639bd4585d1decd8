//! The budget of one rendering: units of work and sizes of results.
//!
//! One unit is one turn of a loop, 200 characters read, or 20 values of a list or mapping at any
//! depth. The figures and messages are those of the Python runtime.

use std::cell::Cell;

use crate::json::Value;

/// The maximum size of a new value: characters of a text, or characters and values of a list.
pub(super) const LARGEST: usize = 1 << 20;
/// The maximum size of a value that is only passed on, which is that of a tool's result.
pub(super) const PASSED: usize = 4 * LARGEST;
/// The units of work for one rendering.
const WORK: usize = 100_000;
/// The number of characters read for one unit.
const READ: usize = 200;
/// The number of values visited for one unit.
const VALUES: usize = 20;
/// The maximum number of digits of a rounding.
const DIGITS: i64 = 1000;

/// The remaining units of work of a rendering.
pub(super) struct Budget {
    left: Cell<usize>,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            left: Cell::new(WORK),
        }
    }

    /// Returns an unlimited budget for work that was already charged.
    pub(super) fn unbounded() -> Self {
        Self {
            left: Cell::new(usize::MAX),
        }
    }

    /// Deducts units from the budget.
    pub(super) fn spend(&self, units: usize) -> Result<(), String> {
        let left = self.left.get().checked_sub(units).ok_or_else(|| {
            let most = grouped(WORK);
            format!("it loops too long: more than {most} units of work")
        })?;
        self.left.set(left);
        Ok(())
    }

    /// Charges for reading a complete value.
    pub(super) fn charge(&self, value: &Value) -> Result<(), String> {
        match value {
            Value::String(text) => self.spend(1 + text.len() / READ),
            Value::Array(_) | Value::Object(_) => self.weigh(value, PASSED).map(drop),
            _ => self.spend(1),
        }
    }

    /// Charges for visiting the entries of a value, without nested values.
    pub(super) fn skim(&self, value: &Value) -> Result<(), String> {
        let length = match value {
            Value::String(text) => text.len(),
            Value::Array(entries) => entries.len(),
            Value::Object(members) => members.len(),
            _ => 0,
        };
        self.spend(1 + length / VALUES)
    }

    /// Returns the number of characters and values in a value.
    ///
    /// # Errors
    ///
    /// The number exceeds `most`, or the budget is spent.
    pub(super) fn weigh(&self, value: &Value, most: usize) -> Result<usize, String> {
        let mut weight = 0;
        let mut read = 0;
        self.add(value, most, &mut weight, &mut read)?;
        self.spend(1 + read / VALUES)?;
        Ok(weight)
    }

    fn add(
        &self,
        value: &Value,
        most: usize,
        weight: &mut usize,
        read: &mut usize,
    ) -> Result<(), String> {
        *weight += 1;
        *read += 1;
        match value {
            Value::String(text) => {
                let length = characters(text);
                *weight += length;
                *read += length / (READ / VALUES);
            }
            Value::Array(entries) => {
                for entry in entries {
                    self.add(entry, most, weight, read)?;
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    *weight += characters(name);
                    self.add(member, most, weight, read)?;
                }
            }
            _ => {}
        }
        if *read >= 1000 {
            self.spend(*read / VALUES)?;
            *read = 0;
        }
        check_size(*weight, most)
    }
}

/// Returns the number of characters of a text.
pub(super) fn characters(text: &str) -> usize {
    text.chars().count()
}

/// Rejects a value that is too large.
pub(super) fn check_size(length: usize, most: usize) -> Result<(), String> {
    if length <= most {
        return Ok(());
    }
    let (length, most) = (grouped(length), grouped(most));
    Err(format!(
        "it makes {length} characters or values; at most {most} are allowed"
    ))
}

/// Validates the number of digits of a rounding.
pub(super) fn digits(count: i64) -> Result<i32, String> {
    if count.abs() > DIGITS {
        return Err(format!("{count} digits are too many"));
    }
    i32::try_from(count).map_err(|error| error.to_string())
}

/// Returns a number with commas between its thousands.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}
