//! The budget of one rendering: units of work, and sizes of what it makes.
//!
//! A unit is one turn of a loop, 200 characters that are read, or 20 values of a list or mapping,
//! however deep. The figures and messages are those of the Python runtime.

use std::cell::Cell;

use crate::json::Value;

/// Characters of a text, or characters and values of a list with all it holds, that may be made.
pub(super) const LARGEST: usize = 1 << 20;
/// The same limit for values that are only passed on: all that a result of a tool can hold.
pub(super) const PASSED: usize = 4 * LARGEST;
/// Units of work for one rendering.
const WORK: usize = 100_000;
/// Characters that are read for one unit.
const READ: usize = 200;
/// Values that are visited for one unit.
const VALUES: usize = 20;
/// Digits of a rounding, at most.
const DIGITS: i64 = 1000;

/// Units of work that a rendering has left.
pub(super) struct Budget {
    left: Cell<usize>,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            left: Cell::new(WORK),
        }
    }

    /// Returns a budget for what has been paid for already.
    pub(super) fn unbounded() -> Self {
        Self {
            left: Cell::new(usize::MAX),
        }
    }

    /// Takes units from the budget.
    pub(super) fn spend(&self, units: usize) -> Result<(), String> {
        let left = self.left.get().checked_sub(units).ok_or_else(|| {
            let most = grouped(WORK);
            format!("it loops too long: more than {most} units of work")
        })?;
        self.left.set(left);
        Ok(())
    }

    /// Takes the cost of reading all of a value.
    pub(super) fn charge(&self, value: &Value) -> Result<(), String> {
        match value {
            Value::String(text) => self.spend(1 + text.len() / READ),
            Value::Array(_) | Value::Object(_) => self.weigh(value, PASSED).map(drop),
            _ => self.spend(1),
        }
    }

    /// Takes the cost of visiting the entries of a value, without what they hold.
    pub(super) fn skim(&self, value: &Value) -> Result<(), String> {
        let length = match value {
            Value::String(text) => text.len(),
            Value::Array(entries) => entries.len(),
            Value::Object(members) => members.len(),
            _ => 0,
        };
        self.spend(1 + length / VALUES)
    }

    /// Returns the characters and values that a value holds.
    ///
    /// # Errors
    ///
    /// They are more than `most`, or the budget is spent.
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

/// Refuses a value that is too large.
pub(super) fn check_size(length: usize, most: usize) -> Result<(), String> {
    if length <= most {
        return Ok(());
    }
    let (length, most) = (grouped(length), grouped(most));
    Err(format!(
        "it makes {length} characters or values; at most {most} are allowed"
    ))
}

/// Returns a number of digits to round to.
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
