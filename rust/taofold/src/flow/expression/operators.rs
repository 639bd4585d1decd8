//! The operators of expressions: Python's semantics for JSON values, with bounds.
//!
//! Integers have 64 bits, as in JSON; the Python runtime supports larger ones.

use std::cmp::Ordering;

use super::bounds::{Budget, LARGEST, characters, check_size};
use crate::json::{Value, json};

/// The maximum number of bits of a power.
const BITS: u128 = 4096;
/// The maximum exponent of a power of floats.
const EXPONENT: f64 = 1000.0;
const INFINITE: &str = "it makes a number that is not finite: JSON has none";

/// A numeric operand. A boolean counts as 0 or 1.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Whole(i128),
    Real(f64),
}

impl Number {
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(flag) => Some(Self::Whole(i128::from(*flag))),
            Value::Number(number) => number
                .as_i64()
                .map(i128::from)
                .or_else(|| number.as_u64().map(i128::from))
                .map(Self::Whole)
                .or_else(|| number.as_f64().map(Self::Real)),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "Python rounds here as well")]
    pub(super) fn real(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }
}

/// Returns an integer as JSON.
pub(super) fn whole(number: i128) -> Result<Value, String> {
    if let Ok(signed) = i64::try_from(number) {
        return Ok(json!(signed));
    }
    let unsigned = u64::try_from(number);
    unsigned
        .map(|number| json!(number))
        .map_err(|_| format!("the number is too large: {number} has more than 64 bits"))
}

/// Returns a float as JSON.
pub(super) fn real(number: f64) -> Result<Value, String> {
    if number.is_finite() {
        return Ok(json!(number));
    }
    Err(INFINITE.to_owned())
}

/// Returns the name of a type in Python's messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// Returns true if a value is truthy.
pub(super) fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(entries) => !entries.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// Computes `left operator right`.
pub(super) fn binary(
    budget: &Budget,
    operator: &str,
    left: &Value,
    right: &Value,
) -> Result<Value, String> {
    budget.spend(1)?;
    if let (Some(left), Some(right)) = (Number::of(left), Number::of(right)) {
        return arithmetic(operator, left, right);
    }
    let weight = |value: &Value| match value {
        Value::String(text) => Ok(characters(text)),
        other => budget.weigh(other, LARGEST),
    };
    match (operator, left, right) {
        ("+", Value::String(start), Value::String(end)) => {
            check_size(weight(left)? + weight(right)?, LARGEST)?;
            Ok(Value::String(format!("{start}{end}")))
        }
        ("+", Value::Array(start), Value::Array(end)) => {
            check_size(weight(left)? + weight(right)?, LARGEST)?;
            Ok(start.iter().chain(end).cloned().collect())
        }
        ("*", Value::String(_) | Value::Array(_), times) if integer(times) => {
            let times = match Number::of(times) {
                Some(Number::Whole(number)) if number > 0 => {
                    usize::try_from(number).unwrap_or(usize::MAX)
                }
                _ => 0,
            };
            let grown = weight(left)?.saturating_mul(times);
            check_size(grown, LARGEST)?;
            budget.spend(grown / 200)?;
            Ok(match left {
                Value::String(text) => Value::String(text.repeat(times)),
                Value::Array(entries) => std::iter::repeat_n(entries, times)
                    .flatten()
                    .cloned()
                    .collect(),
                _ => Value::Null,
            })
        }
        _ => Err(format!(
            "TypeError: {operator} is not for {} and {}",
            kind(left),
            kind(right)
        )),
    }
}

fn integer(value: &Value) -> bool {
    matches!(Number::of(value), Some(Number::Whole(_)))
}

fn arithmetic(operator: &str, left: Number, right: Number) -> Result<Value, String> {
    let zero = match right {
        Number::Whole(number) => number == 0,
        Number::Real(number) => number == 0.0,
    };
    if zero && ["/", "//", "%"].contains(&operator) {
        return Err("division by zero".to_owned());
    }
    if operator == "**" {
        return power(left, right);
    }
    if let (Number::Whole(left), Number::Whole(right), false) = (left, right, operator == "/") {
        let result = match operator {
            "+" => left.checked_add(right),
            "-" => left.checked_sub(right),
            "*" => left.checked_mul(right),
            "//" => Some(left.div_euclid(right)).map(|quotient| {
                // Python rounds down, even for a negative divisor.
                let exact = left.rem_euclid(right) == 0;
                quotient - i128::from(right < 0 && !exact)
            }),
            _ => Some(left.rem_euclid(right)).map(|rest| {
                if right < 0 && rest != 0 {
                    rest + right
                } else {
                    rest
                }
            }),
        };
        let result = result.ok_or_else(|| "the number is too large".to_owned())?;
        return whole(result);
    }
    let (left, right) = (left.real(), right.real());
    real(match operator {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => left / right,
        "//" => floor_division(left, right),
        _ => modulo(left, right),
    })
}

fn modulo(left: f64, right: f64) -> f64 {
    let rest = left % right;
    if rest != 0.0 && (rest < 0.0) != (right < 0.0) {
        rest + right
    } else if rest == 0.0 {
        0.0_f64.copysign(right)
    } else {
        rest
    }
}

fn floor_division(left: f64, right: f64) -> f64 {
    let quotient = (left - modulo(left, right)) / right;
    if quotient == 0.0 {
        return 0.0_f64.copysign(left / right);
    }
    let floor = quotient.floor();
    if quotient - floor > 0.5 {
        floor + 1.0
    } else {
        floor
    }
}

fn power(left: Number, right: Number) -> Result<Value, String> {
    if let (Number::Whole(base), Number::Whole(exponent)) = (left, right) {
        let bits = u128::from((i128::BITS - base.unsigned_abs().leading_zeros()).max(1));
        if bits.saturating_mul(exponent.unsigned_abs()) > BITS {
            return Err(format!("{base} ** {exponent} is too large"));
        }
        if let Ok(exponent) = u32::try_from(exponent) {
            let result = base.checked_pow(exponent);
            return whole(result.ok_or_else(|| format!("{base} ** {exponent} is too large"))?);
        }
    }
    let (left, right) = (left.real(), right.real());
    if right.abs() > EXPONENT {
        return Err("the exponent is too large".to_owned());
    }
    if left == 0.0 && right < 0.0 {
        return Err("zero to a negative power".to_owned());
    }
    real(left.powf(right))
}

/// Applies a unary sign to a number.
pub(super) fn signed(sign: &str, value: &Value) -> Result<Value, String> {
    match Number::of(value) {
        Some(Number::Whole(number)) => whole(if sign == "-" { -number } else { number }),
        Some(Number::Real(number)) => real(if sign == "-" { -number } else { number }),
        None => Err(format!(
            "TypeError: bad operand type for unary {sign}: '{}'",
            kind(value)
        )),
    }
}

/// Returns true if two values are equal. Numbers are compared by value.
#[expect(clippy::float_cmp, reason = "Python's == is exact")]
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| equal(a, b))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, a)| right.get(name).is_some_and(|b| equal(a, b)))
        }
        _ => match (Number::of(left), Number::of(right)) {
            (Some(Number::Whole(left)), Some(Number::Whole(right))) => left == right,
            (Some(left), Some(right)) => left.real() == right.real(),
            _ => left == right,
        },
    }
}

/// Returns the order of two values.
///
/// # Errors
///
/// Their types have no order.
pub(super) fn order(sign: &str, left: &Value, right: &Value) -> Result<Ordering, String> {
    if let (Some(one), Some(other)) = (Number::of(left), Number::of(right)) {
        return Ok(match (one, other) {
            (Number::Whole(one), Number::Whole(other)) => one.cmp(&other),
            (one, other) => one.real().total_cmp(&other.real()),
        });
    }
    match (left, right) {
        (Value::String(left), Value::String(right)) => Ok(left.cmp(right)),
        (Value::Array(left), Value::Array(right)) => {
            for (one, other) in left.iter().zip(right) {
                if !equal(one, other) {
                    return order(sign, one, other);
                }
            }
            Ok(left.len().cmp(&right.len()))
        }
        _ => Err(format!(
            "TypeError: '{sign}' not supported between instances of '{}' and '{}'",
            kind(left),
            kind(right)
        )),
    }
}

/// Returns true if `left sign right` holds.
pub(super) fn compare(sign: &str, left: &Value, right: &Value) -> Result<bool, String> {
    Ok(match sign {
        "==" => equal(left, right),
        "!=" => !equal(left, right),
        "<" => order(sign, left, right)?.is_lt(),
        "<=" => order(sign, left, right)?.is_le(),
        ">" => order(sign, left, right)?.is_gt(),
        ">=" => order(sign, left, right)?.is_ge(),
        "in" => contains(right, left)?,
        _ => !contains(right, left)?,
    })
}

fn contains(container: &Value, entry: &Value) -> Result<bool, String> {
    match (container, entry) {
        (Value::Array(entries), _) => Ok(entries.iter().any(|other| equal(other, entry))),
        (Value::String(text), Value::String(part)) => Ok(text.contains(part.as_str())),
        (Value::String(_), _) => Err(format!(
            "TypeError: 'in <string>' requires string as left operand, not {}",
            kind(entry)
        )),
        (Value::Object(members), Value::String(name)) => Ok(members.contains_key(name)),
        (Value::Object(_), Value::Array(_) | Value::Object(_)) => {
            Err(format!("TypeError: unhashable type: '{}'", kind(entry)))
        }
        (Value::Object(_), _) => Ok(false),
        _ => Err(format!(
            "TypeError: argument of type '{}' is not iterable",
            kind(container)
        )),
    }
}
