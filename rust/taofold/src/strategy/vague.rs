//! Detects vague texts: thoughts without an intent or a reason.
//!
//! Texts are judged by form only, in English, with the word lists of the Python runtime
//! (`taofold.core.vague_text`), because both runtimes must judge a recorded thought alike. The
//! checks are bounded and pure.

use std::sync::LazyLock;

use regex::Regex;

/// The maximum number of characters of a vague text; longer ones count as specific.
const LONGEST: usize = 80;
/// The number of characters of a thought in which a reason is searched.
const JUDGED: usize = 1000;
/// Words after "to" that make it a direction and not a purpose.
const DIRECTIONS: [&str; 15] = [
    "the", "a", "an", "some", "this", "that", "it", "my", "our", "at", "on", "below", "above",
    "under", "over",
];

static BARE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const ACTIVITY: &str = "look|check|read|view|open|see|search|think|work|process|examine|inspect|\
        analyze|analyse|review|explore|investigate|continue|proceed|run|try|start|do|use|update|edit|\
        fetch|get|handle|call";
    const DOING: &str = "looking|checking|reading|viewing|opening|seeing|searching|thinking|working|\
        processing|examining|inspecting|analyzing|analysing|reviewing|exploring|investigating|\
        continuing|proceeding|running|trying|starting|doing|using|updating|editing|fetching|getting|\
        handling|calling";
    const DONE: &str = "got|looked|checked|viewed|opened|saw|searched|ran|did|used|fetched";
    const THING: &str = "code|codebase|files?|logs?|outputs?|results?|problem|issue|errors?|tests?|\
        project|repository|repo|directory|folder|config|configuration|data|tool|command|it|this|that|\
        things?|something|stuff|task|step|next|one";
    let pattern = format!(
        r"(?i)^(?:(?:ok|okay|now|next|then|first|so|well|alright)\b[,:]?\s*)*(?:(?:let me|let's|let us|i will|i'll|i am going to|i'm going to)\s+(?:now\s+|just\s+|first\s+)?(?:{ACTIVITY})|(?:i am\s+|i'm\s+|just\s+|still\s+)?(?:{DOING})|(?:i\s+|i have\s+|i've\s+)?(?:{DONE}))(?:\s+(?:at|into|in|through|on|for|up|with|over|around))*(?:\s+(?:the|this|that|some|a|an|my|our|all|more|relevant|next))*(?:\s+(?:{THING}))*$"
    );
    Regex::new(&pattern).ok()
});
/// Phrases with "to" and "for" that state no purpose.
static WISH: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:need|needs|needed|want|wants|wanted|going|have|has|had|try|trying|able|about|ought|like)\s+to\b|\b(?:look|looking|search|searching|wait|waiting|ask|asking)\s+for\b|\bfor\s+now\b",
    )
    .ok()
});
static BE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?i)^\s+be\b").ok());
static REASON: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:because|since|therefore|thus|hence|so|as|for|if|whether|why|reason\w*|due\s+to|given|based\s+on|otherwise|until|before|must|needs?|caus\w+|means|meaning|explains|confirms?|shows?|showed|says|said|indicates?|suggests?|implies)\b",
    )
    .ok()
});
static PURPOSE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)\bto\s+([a-z]\w+)\b").ok());
static ENGLISH: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:the|i|a|is|are|was|of|it|to|and|this|that|we|my|let|now|next)\b").ok()
});

/// Returns true if a text names only an activity, without an aim, a reason or a place.
pub(super) fn lacks_intent(text: &str) -> bool {
    let plain = plain(text);
    if is_blank(&plain) {
        return !text.trim().is_empty();
    }
    plain.chars().nth(LONGEST).is_none() && found(&BARE, &plain)
}

/// Returns true if a text has no letter and no digit.
pub(super) fn is_blank(text: &str) -> bool {
    !text.chars().any(char::is_alphanumeric)
}

/// Returns true if an English thought gives no reason or purpose.
///
/// A text without an English function word is not judged.
pub(super) fn lacks_reason(text: &str) -> bool {
    let plain = plain(text);
    if plain.chars().nth(JUDGED).is_some() || !found(&ENGLISH, &plain) {
        return false;
    }
    let rest = without_wishes(&plain);
    let purpose = PURPOSE.as_ref().is_some_and(|purpose| {
        let mut words = purpose
            .captures_iter(&rest)
            .map(|found| found[1].to_lowercase());
        words.any(|word| !DIRECTIONS.contains(&word.as_str()))
    });
    !purpose && !found(&REASON, &rest)
}

fn without_wishes(text: &str) -> String {
    let Some(wish) = WISH.as_ref() else {
        return text.to_owned();
    };
    let mut rest = String::with_capacity(text.len());
    let mut kept = 0;
    for wished in wish.find_iter(text) {
        // "needs to be" describes a state.
        let to = wished.as_str().to_lowercase().ends_with("to");
        if to && found(&BE, &text[wished.end()..]) {
            continue;
        }
        rest.push_str(&text[kept..wished.start()]);
        rest.push(' ');
        kept = wished.end();
    }
    rest.push_str(&text[kept..]);
    rest
}

fn found(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

/// Returns true for a character without a glyph, which hides a word from the patterns.
fn is_invisible(each: char) -> bool {
    matches!(
        each,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
    )
}

fn plain(text: &str) -> String {
    let shown: String = text.chars().filter(|&each| !is_invisible(each)).collect();
    let text = shown.replace('\u{2019}', "'");
    let words: Vec<&str> = text.split_whitespace().collect();
    let plain = words.join(" ");
    plain.trim_matches([' ', '.', '…', '!', ':']).to_owned()
}
