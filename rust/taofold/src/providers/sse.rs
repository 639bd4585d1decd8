//! Server-Sent Events (WHATWG HTML 9.2), `data` fields only, for chunks that end at any byte.

#[derive(Debug, Default)]
pub(super) struct EventDecoder {
    rest: Vec<u8>,
    data: Vec<String>,
    begun: bool,
}

impl EventDecoder {
    /// Processes the next bytes and returns the data of the complete events.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Vec<String> {
        // Only new bytes can contain a line's end.
        let mut searched = self.rest.len();
        self.rest.extend_from_slice(chunk);
        let mut events = Vec::new();
        let mut start = 0;
        while let Some(end) = self.rest[searched..].iter().position(|byte| *byte == b'\n') {
            let end = searched + end;
            let line = String::from_utf8_lossy(&self.rest[start..end]).into_owned();
            events.extend(self.line(line.trim_end_matches('\r')));
            start = end + 1;
            searched = start;
        }
        self.rest.drain(..start);
        events
    }

    /// Ends the stream. Returns an event that lacks only its blank line.
    pub(super) fn close(&mut self) -> Vec<String> {
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned();
        let mut events: Vec<String> = self.line(&rest).into_iter().collect();
        events.extend(self.line(""));
        events
    }

    fn line(&mut self, line: &str) -> Option<String> {
        // A stream may begin with a byte order mark.
        let line = if self.begun {
            line
        } else {
            line.trim_start_matches('\u{feff}')
        };
        self.begun = true;
        if let Some(data) = line.strip_prefix("data:") {
            self.data
                .push(data.strip_prefix(' ').unwrap_or(data).to_owned());
            return None;
        }
        if line.is_empty() && !self.data.is_empty() {
            return Some(std::mem::take(&mut self.data).join("\n"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        let stream = "\u{feff}data: {\"a\": \"é\"}\r\n\r\n: comment\nevent: x\ndata: one\ndata:  two\n\ndata: last";
        for size in 1..stream.len() {
            let mut decoder = EventDecoder::default();
            let mut events: Vec<String> = Vec::new();
            for chunk in stream.as_bytes().chunks(size) {
                events.extend(decoder.feed(chunk));
            }
            events.extend(decoder.close());
            assert_eq!(
                events,
                ["{\"a\": \"é\"}", "one\n two", "last"],
                "pieces of {size}"
            );
        }
    }
}
