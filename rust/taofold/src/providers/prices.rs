//! Prices in US dollars per million tokens, and context windows, from the catalogue of the Python
//! package.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use regex::Regex;
use serde::Deserialize;

use crate::json::Value;
use crate::values::Usage;

const CATALOGUE: &str = include_str!("../../../../src/taofold/models/catalogue.json");

/// Dollars per million tokens: uncached input, cached input, output, input written to the cache,
/// and input written to a cache that lasts an hour.
type Rates = [f64; 5];

/// The prices of a model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Price(
    Rates,
    /// Rates for calls with more input tokens than a threshold, in rising order.
    Vec<(u64, Rates)>,
    /// Prices of service tiers other than the default one.
    Vec<(String, Price)>,
    /// Prices from a date on, or between two minutes of each day.
    Vec<(Price, String, Option<u64>, Option<u64>)>,
);

impl Price {
    /// Returns the valid price on a day (ISO).
    ///
    /// The highest of several prices by time of day counts, because the time at which a call is
    /// charged is not documented.
    fn on(&self, day: &str) -> Self {
        let mut chosen = Self(self.0, self.1.clone(), self.2.clone(), Vec::new());
        for (price, since, begins, ends) in &self.3 {
            let hourly = begins.is_some() && ends.is_some();
            if day < since.as_str() || (hourly && price.0[2] < chosen.0[2]) {
                continue;
            }
            let services = if price.2.is_empty() {
                &chosen.2
            } else {
                &price.2
            };
            chosen = Self(price.0, price.1.clone(), services.clone(), Vec::new());
        }
        chosen
    }

    /// Returns the cost in dollars. Cached and written tokens are part of the input.
    #[expect(
        clippy::cast_precision_loss,
        reason = "tokens of one call are far below 2^53"
    )]
    pub fn cost(&self, usage: &Usage, tier: &str) -> f64 {
        let price = self.2.iter().find(|(name, _)| name == tier);
        let price = price.map_or(self, |(_, price)| price);
        let passed = price
            .1
            .iter()
            .rfind(|(start, _)| usage.input_tokens > *start);
        let [fresh, cached, output, written, _] = passed.map_or(price.0, |(_, rates)| *rates);
        let rest = usage
            .input_tokens
            .saturating_sub(usage.cached_tokens)
            .saturating_sub(usage.written_tokens);
        (fresh * rest as f64
            + cached * usage.cached_tokens as f64
            + written * usage.written_tokens as f64
            + output * usage.output_tokens as f64)
            / 1e6
    }
}

/// A model's entry in the catalogue.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Entry {
    #[serde(rename = "match")]
    clause: Value,
    #[serde(default)]
    pub(super) window: u64,
    #[serde(default)]
    pub(super) price: Option<Price>,
}

#[derive(Debug, Deserialize)]
struct Catalogue {
    providers: std::collections::HashMap<String, Vec<Entry>>,
}

fn catalogue() -> &'static Catalogue {
    static READ: OnceLock<Catalogue> = OnceLock::new();
    READ.get_or_init(|| {
        // A test parses this file, so the built-in catalogue is valid.
        serde_json::from_str(CATALOGUE).unwrap_or_else(|_| Catalogue {
            providers: std::collections::HashMap::new(),
        })
    })
}

/// Returns the entry of `model` at one of the known providers.
pub(super) fn find(provider: &str, model: &str) -> Option<Entry> {
    let theirs = match provider {
        "openai" | "openai-chat" => "openai",
        "xai" => "x-ai",
        "moonshot" => "moonshotai",
        same @ ("anthropic" | "deepseek" | "mistral" | "zai" | "groq" | "together"
        | "fireworks" | "cerebras" | "openrouter") => same,
        _ => return None,
    };
    let name = model.to_lowercase();
    let rows = catalogue().providers.get(theirs)?;
    // The first matching row counts.
    let row = rows.iter().find(|row| matches(&row.clause, &name))?;
    Some(Entry {
        price: row.price.as_ref().map(|price| price.on(&today())),
        ..row.clone()
    })
}

fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since.map_or(0, |it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX));
    crate::log::ndjson::iso(ms).chars().take(10).collect()
}

fn matches(clause: &Value, name: &str) -> bool {
    let value = &clause[1];
    let text = value.as_str().unwrap_or_default();
    let inner = || {
        value
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
    };
    match clause[0].as_str().unwrap_or_default() {
        "equals" => name == text,
        "starts_with" => name.starts_with(text),
        "ends_with" => name.ends_with(text),
        "contains" => name.contains(text),
        "regex" => Regex::new(text).is_ok_and(|pattern| pattern.is_match(name)),
        "or" => inner().any(|clause| matches(clause, name)),
        "and" => inner().all(|clause| matches(clause, name)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_read_and_knows_models_by_the_beginning_of_their_name() {
        assert!(serde_json::from_str::<Catalogue>(CATALOGUE).is_ok());
        let entry = find("anthropic", "claude-3-haiku-20240307").unwrap();
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 1_000_000,
            ..Usage::default()
        };
        let cost = entry.price.unwrap().cost(&usage, "");
        assert!((cost - 1.5).abs() < 1e-9, "{cost}");
        assert_eq!(find("openai-compatible", "gpt-4"), None);
    }

    #[test]
    fn cached_input_and_long_calls_have_rates_of_their_own() {
        let price = Price(
            [2.0, 0.2, 8.0, 3.0, 0.0],
            vec![(1_000, [4.0, 0.4, 16.0, 6.0, 0.0])],
            Vec::new(),
            Vec::new(),
        );
        let usage = |input_tokens, cached_tokens| Usage {
            input_tokens,
            cached_tokens,
            ..Usage::default()
        };
        let near = |cost: f64, expected: f64| assert!((cost - expected).abs() < 1e-12, "{cost}");
        near(
            price.cost(&usage(1_000, 500), ""),
            (2.0 * 500.0 + 0.2 * 500.0) / 1e6,
        );
        near(price.cost(&usage(2_000, 0), ""), 4.0 * 2_000.0 / 1e6);
    }

    #[test]
    fn a_price_holds_from_its_day_on_and_the_dearest_hour_counts() {
        let flat = |output| {
            Price(
                [1.0, 1.0, output, 1.0, 0.0],
                Vec::new(),
                Vec::new(),
                Vec::new(),
            )
        };
        let mut price = flat(4.0);
        price.3 = vec![
            (flat(6.0), "2026-06-01".to_owned(), None, None),
            (flat(3.0), String::new(), Some(30), Some(990)),
        ];
        assert!((price.on("2026-05-31").0[2] - 4.0).abs() < 1e-9);
        assert!((price.on("2026-06-01").0[2] - 6.0).abs() < 1e-9);
        price
            .3
            .push((flat(9.0), String::new(), Some(990), Some(30)));
        assert!((price.on("2026-06-01").0[2] - 9.0).abs() < 1e-9);
    }
}
