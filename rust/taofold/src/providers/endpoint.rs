//! One address with one key: sends a request, reads the response, and retries where useful.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::errors;
use super::reply::{ReadReply, Reader};
use super::sse::EventDecoder;
use crate::errors::{ConfigError, ModelError};
use crate::json::Value;

/// The maximum size of a response, above that of any model reply.
const MOST_BYTES: usize = 16 << 20;
const CONNECT: Duration = Duration::from_secs(10);
/// The timeout for a complete response, or between two chunks of a stream.
const SILENCE: Duration = Duration::from_secs(120);

/// The kinds of errors that may be temporary. A timeout is not retried, because it already took
/// long.
const AGAIN: [&str; 4] = ["rate", "server", "network", "reply"];
const ATTEMPTS: u32 = 3;
/// The number of attempts after status 429, which waiting resolves.
const RATE_ATTEMPTS: u32 = 6;
const FIRST_PAUSE: f64 = 0.5;
const LONGEST_PAUSE: f64 = 20.0;
/// The time in seconds after the first attempt after which no retry starts.
const PATIENCE: f64 = 300.0;

pub(super) type OnText<'a> = Option<&'a (dyn Fn(&str) + Send + Sync)>;

pub(super) struct Endpoint {
    url: reqwest::Url,
    secret: String,
    client: reqwest::Client,
}

impl Endpoint {
    pub(super) fn new(
        url: &str,
        headers: &[(&'static str, String)],
        secret: String,
    ) -> Result<Self, ConfigError> {
        let wrong = |error: String| ConfigError::new("model", error);
        let parsed =
            reqwest::Url::parse(url).map_err(|error| wrong(format!("{url:?}: {error}")))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(wrong(format!(
                "{url:?} must start with http:// or https://"
            )));
        }
        let mut map = HeaderMap::new();
        map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            let mut value =
                HeaderValue::from_str(value).map_err(|error| wrong(error.to_string()))?;
            value.set_sensitive(*name != "anthropic-version");
            map.insert(HeaderName::from_static(name), value);
        }
        // One cryptography provider for the process; it may be installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .default_headers(map)
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            // A redirect would pass the key to another host.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            url: parsed,
            secret,
            client,
        })
    }

    pub(super) fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    pub(super) async fn ask(
        &self,
        body: &Value,
        reader: &(dyn Fn() -> Box<dyn Reader> + Sync),
        on_text: OnText<'_>,
        streaming: bool,
    ) -> Result<ReadReply, ModelError> {
        let begun = Instant::now();
        let mut attempt = 1;
        loop {
            let error = match self.once(body, reader(), on_text, streaming).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let Some(pause) = pause(&error, attempt, begun.elapsed().as_secs_f64()) else {
                return Err(error);
            };
            tokio::time::sleep(Duration::from_secs_f64(pause)).await;
            attempt += 1;
        }
    }

    async fn once(
        &self,
        body: &Value,
        mut reader: Box<dyn Reader>,
        on_text: OnText<'_>,
        streaming: bool,
    ) -> Result<ReadReply, ModelError> {
        let broken = |error: &reqwest::Error| self.broken(error);
        let sent = self.client.post(self.url.clone()).body(body.to_string());
        let response = sent.send().await.map_err(|error| broken(&error))?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let kind = headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let document = kind.contains("application/json") || kind.contains("text/html");
        let mut chunks = response.bytes_stream();
        if status != 200 || !streaming || document {
            let mut bytes = Vec::new();
            while let Some(chunk) = chunks.next().await {
                bytes.extend_from_slice(&chunk.map_err(|error| broken(&error))?);
                self.check_size(bytes.len())?;
            }
            if status != 200 {
                return Err(errors::failure(
                    status,
                    &headers,
                    &bytes,
                    self.url.as_str(),
                    &self.secret,
                ));
            }
            let answer: Value = serde_json::from_slice(&bytes).map_err(|error| {
                ModelError::new("reply", format!("the answer is no JSON: {error}"))
            })?;
            self.reported(&answer)?;
            let reply = reader.whole(&answer)?;
            speak(on_text, &reply);
            return Ok(reply);
        }
        let mut decoder = EventDecoder::default();
        let mut size = 0;
        let mut ended = false;
        while let Some(chunk) = chunks.next().await {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                // A complete reply stays valid even if the connection breaks.
                Err(_) if reader.complete() => break,
                Err(error) => return Err(broken(&error)),
            };
            size += chunk.len();
            self.check_size(size)?;
            for event in decoder.feed(&chunk) {
                ended |= self.event(reader.as_mut(), &event, on_text)?;
            }
            if ended {
                break;
            }
        }
        for event in decoder.close() {
            self.event(reader.as_mut(), &event, on_text)?;
        }
        if !reader.complete() {
            let message = "the stream broke off before the reply was complete";
            return Err(ModelError::new("network", message));
        }
        reader.finish()
    }

    fn event(
        &self,
        reader: &mut dyn Reader,
        event: &str,
        on_text: OnText<'_>,
    ) -> Result<bool, ModelError> {
        if event == "[DONE]" {
            return Ok(true);
        }
        let event: Value = serde_json::from_str(event)
            .map_err(|error| ModelError::new("reply", format!("an event is no JSON: {error}")))?;
        self.reported(&event)?;
        let mut said = String::new();
        let ended = reader.event(&event, &mut said)?;
        if let (Some(on_text), false) = (on_text, said.is_empty()) {
            on_text(&said);
        }
        Ok(ended)
    }

    /// Detects an error in a response with status 200.
    fn reported(&self, answer: &Value) -> Result<(), ModelError> {
        let error = match answer.get("error") {
            Some(error) if !error.is_null() => error,
            _ if answer["type"] == "error" => answer,
            _ => return Ok(()),
        };
        let body = Value::Object([("error".to_owned(), error.clone())].into_iter().collect());
        let bytes = body.to_string();
        Err(errors::failure(
            0,
            &HeaderMap::new(),
            bytes.as_bytes(),
            self.url.as_str(),
            &self.secret,
        ))
    }

    fn check_size(&self, size: usize) -> Result<(), ModelError> {
        if size <= MOST_BYTES {
            return Ok(());
        }
        let message = format!(
            "the answer of {} is larger than {MOST_BYTES} bytes",
            self.host()
        );
        Err(ModelError::new("reply", message))
    }

    fn broken(&self, error: &reqwest::Error) -> ModelError {
        let host = self.host();
        if error.is_connect() {
            return ModelError::new(
                "network",
                format!("no connection to {host}: {}", cause(error)),
            );
        }
        if error.is_timeout() {
            let seconds = SILENCE.as_secs();
            return ModelError::new(
                "timeout",
                format!("{host} did not answer within {seconds} s"),
            );
        }
        ModelError::new("network", format!("{host}: {}", cause(error)))
    }
}

/// Returns the innermost message of an error; the outer ones repeat the address.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

fn speak(on_text: OnText<'_>, reply: &ReadReply) {
    let text = crate::content::Content::from_parts(reply.parts.clone()).text();
    if let (Some(on_text), false) = (on_text, text.is_empty()) {
        on_text(&text);
    }
}

/// Returns the seconds to wait after failed attempt number `attempt`; `None` to give up.
fn pause(error: &ModelError, attempt: u32, elapsed: f64) -> Option<f64> {
    let most = if error.kind == "rate" {
        RATE_ATTEMPTS
    } else {
        ATTEMPTS
    };
    if !AGAIN.contains(&error.kind.as_str()) || attempt >= most {
        return None;
    }
    let growing = (FIRST_PAUSE * 2_f64.powi(i32::try_from(attempt).ok()? - 1)).min(LONGEST_PAUSE);
    // Half of it is fixed, because a jitter of zero would let many clients return at once.
    let chance = crate::log::sqlite::random().map_or(0.5, |bytes| f64::from(bytes[0]) / 256.0);
    let pause = (growing * (0.5 + chance / 2.0)).max(error.retry_after.unwrap_or(0.0));
    (elapsed + pause <= PATIENCE).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_again_no_earlier_than_it_says_and_not_for_ever() {
        let mut error = ModelError::new("rate", "slow down");
        error.retry_after = Some(7.0);
        assert_eq!(pause(&error, 1, 0.0), Some(7.0));
        assert_eq!(pause(&error, RATE_ATTEMPTS, 0.0), None);
        assert_eq!(pause(&error, 1, 299.0), None);
        assert_eq!(pause(&ModelError::new("auth", "no"), 1, 0.0), None);
        assert_eq!(pause(&ModelError::new("timeout", "no"), 1, 0.0), None);
    }
}
