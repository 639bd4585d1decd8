//! Classifies provider errors by status and text, and determines the delay before a retry.

use reqwest::header::HeaderMap;

use crate::errors::ModelError;
use crate::json::Value;

const EXCERPT: usize = 500;
const LONGEST_WAIT: f64 = 3600.0;
const QUOTA: [&str; 4] = [
    "insufficient_quota",
    "billing",
    "credit balance",
    "exceeded your current quota",
];
const OVERFLOW: [&str; 7] = [
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "prompt is too long",
    "too many tokens",
    "exceed_context_size",
    "exceeds the available context",
];

/// Texts with which providers reject content that they signed or encrypted before.
const BINDING: [&str; 10] = [
    "invalid `signature`",
    "bound to a different conversation",
    "thought_signature",
    "corrupted thought signature",
    "encrypted content",
    "without its required",
    "items are not persisted",
    "expected `thinking`",
    "blocks in the latest assistant message",
    "must be passed back to the api",
];
/// Texts for reasoning that was sent to a model without reasoning.
const NO_REASONING: [&str; 3] = [
    "encrypted content is not supported",
    "encrypted_content is not supported",
    "reasoning.encrypted_content' is not supported",
];

/// Returns the error for a response with a status other than 200; 0 for an error inside a stream.
pub(super) fn failure(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    url: &str,
    secret: &str,
) -> ModelError {
    let (code, message) = reason(body);
    let kind = kind_of(status, &format!("{code} {message}").to_lowercase());
    let message = if secret.is_empty() {
        message
    } else {
        message.replace(secret, "***")
    };
    let printable = |text: &str| -> String {
        let kept = text.chars().take(EXCERPT);
        kept.map(|it| {
            if it.is_control() && it != '\n' {
                ' '
            } else {
                it
            }
        })
        .collect()
    };
    let host = reqwest::Url::parse(url)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned))
        .unwrap_or_default();
    let head = if status == 0 {
        format!("{host} reported an error")
    } else {
        format!("{host} answered {status}")
    };
    let code = if code.is_empty() {
        String::new()
    } else {
        format!(" ({})", printable(&code))
    };
    let mut error = ModelError::new(kind, format!("{head}{code}: {}", printable(&message)));
    error.status = status;
    error.retry_after = retry_after(headers);
    error
}

fn kind_of(status: u16, text: &str) -> &'static str {
    let any = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
    match status {
        401 | 403 => "auth",
        _ if any(&["api_key_invalid", "api key not valid", "invalid_api_key"]) => "auth",
        400 | 404 | 422 if any(&NO_REASONING) => "request",
        400 | 404 | 422 if any(&BINDING) => "binding",
        402 => "auth",
        // OpenAI also returns 429 for an account without credit, and waiting does not help there.
        _ if any(&QUOTA) => "auth",
        413 => "overflow",
        // Only below 429, because the message of a rate limit also mentions too many tokens.
        0..429 if any(&OVERFLOW) => "overflow",
        429 => "rate",
        0 if text.contains("rate_limit") => "rate",
        408 | 500.. => "server",
        0 if text.contains("invalid_request") => "request",
        0 => "server",
        _ => "request",
    }
}

/// Returns code and message of an error body, in the format of any provider.
fn reason(body: &[u8]) -> (String, String) {
    let Ok(report) = serde_json::from_slice::<Value>(body) else {
        let text = String::from_utf8_lossy(&body[..body.len().min(EXCERPT)]);
        return (String::new(), text.trim().to_owned());
    };
    let inner = report.get("error").unwrap_or(&report);
    let Value::Object(inner) = inner else {
        return (String::new(), crate::json::render(inner));
    };
    let text = |name: &str| inner.get(name).and_then(Value::as_str).unwrap_or_default();
    let code = [text("code"), text("type"), text("status")]
        .into_iter()
        .find(|code| !code.is_empty())
        .unwrap_or_default();
    let message = [text("message"), text("detail")]
        .into_iter()
        .find(|message| !message.is_empty())
        .unwrap_or_default();
    // A router's error contains the provider's message, which alone explains the failure.
    let upstream = inner.get("metadata").and_then(|it| it.get("raw"));
    let upstream = upstream.and_then(Value::as_str).unwrap_or_default();
    let message = if upstream.is_empty() {
        message.to_owned()
    } else {
        format!("{message}: {upstream}")
    };
    (code.to_owned(), message)
}

fn retry_after(headers: &HeaderMap) -> Option<f64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let exact = text("retry-after-ms").and_then(|it| it.trim().parse::<f64>().ok());
    let seconds = exact
        .map(|ms| ms / 1000.0)
        .or_else(|| text("retry-after").and_then(|it| it.trim().parse().ok()))
        .or_else(|| text("retry-after").and_then(until_date))?;
    seconds
        .is_finite()
        .then(|| seconds.clamp(0.0, LONGEST_WAIT))
}

/// Returns the seconds until an HTTP date.
fn until_date(text: &str) -> Option<f64> {
    let at = httpdate::parse_http_date(text).ok()?;
    let left = at.duration_since(std::time::SystemTime::now());
    Some(left.map_or(0.0, |left| left.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sorted_by_what_helps() {
        let cases = [
            (429, "slow down", "rate"),
            (429, "insufficient_quota", "auth"),
            (401, "", "auth"),
            (400, "maximum context length is 8192", "overflow"),
            (400, "unknown field", "request"),
            (
                400,
                "the block is bound to a different conversation",
                "binding",
            ),
            (400, "encrypted content is not supported", "request"),
            (529, "overloaded", "server"),
            (0, "rate_limit_error", "rate"),
        ];
        for (status, text, kind) in cases {
            assert_eq!(kind_of(status, text), kind, "{status} {text}");
        }
    }

    #[test]
    fn a_key_in_an_error_is_not_repeated() {
        let body = br#"{"error": {"message": "wrong key sk-secret", "code": "x"}}"#;
        let error = failure(400, &HeaderMap::new(), body, "https://a.b/v1", "sk-secret");
        assert!(!error.message.contains("sk-secret"), "{}", error.message);
        assert!(
            error
                .message
                .contains("a.b answered 400 (x): wrong key ***")
        );
    }

    #[test]
    fn a_wait_is_read_in_each_form_and_bounded() {
        let wait = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(wait("retry-after", "3"), Some(3.0));
        assert_eq!(wait("retry-after-ms", "250"), Some(0.25));
        assert_eq!(wait("retry-after", "99999999"), Some(LONGEST_WAIT));
        assert_eq!(
            wait("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"),
            Some(0.0)
        );
        assert_eq!(wait("retry-after", "soon"), None);
    }
}
