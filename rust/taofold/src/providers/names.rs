//! Names of tools in the form that every provider accepts: letters, digits, `_` and `-`.

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};

use crate::content::hex;
use crate::model::ToolOffer;

const LONGEST: usize = 64;

fn valid(name: &str) -> bool {
    let head = name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
    let body = name
        .chars()
        .all(|it| it.is_ascii_alphanumeric() || "_-".contains(it));
    head && body && name.len() <= LONGEST
}

/// Returns a substitute that depends only on the name, so that a history keeps its bytes.
pub(super) fn wire_name(name: &str) -> String {
    if valid(name) {
        return name.to_owned();
    }
    if name.is_empty() {
        return "unnamed".to_owned();
    }
    // Escaped and not dropped, because names that differ in one character must stay different.
    let mut plain = String::new();
    for sign in name.replace('.', "__").chars() {
        if sign.is_ascii_alphanumeric() || "_-".contains(sign) {
            plain.push(sign);
        } else {
            plain.push_str(&format!("_x{:x}_", u32::from(sign)));
        }
    }
    if !plain.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_') {
        plain.insert(0, '_');
    }
    if plain.len() > LONGEST {
        plain.truncate(LONGEST - 17);
        plain = format!("{plain}_{}", hex(&Blake2b::<U8>::digest(name)));
    }
    plain
}

/// Returns the tool's own name for a provider's name.
pub(super) fn original(wire: &str, offers: &[ToolOffer]) -> String {
    let own = offers.iter().find(|offer| wire_name(&offer.name) == wire);
    own.map_or_else(|| wire.to_owned(), |offer| offer.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_are_valid_and_lead_back_to_the_name() {
        for name in ["web.search", "9lives", "naïve tool", &"x".repeat(90), ""] {
            let wire = wire_name(name);
            assert!(valid(&wire), "{name:?} became {wire:?}");
            let offer = ToolOffer {
                name: name.to_owned(),
                description: String::new(),
                schema: serde_json::Value::Null,
            };
            assert_eq!(original(&wire, &[offer]), name);
        }
        assert_ne!(wire_name("a b"), wire_name("a,b"));
    }
}
