//! Owns the recognition of e-mail addresses in running text, and of what only looks like one
//! (logins in URLs, versions of packages, names of files and of units). It makes no network or DNS
//! lookups.

use super::PiiKind;
use super::view::{PiiMatch, TextView, is_word_char};

const LOCAL_BYTES_MAX: usize = 128;
const DOMAIN_BYTES_MAX: usize = 253;
const TLD_CHARS_MAX: usize = 24;
/// Bytes before an address that are searched for the scheme of a URL.
const SCHEME_BYTES_MAX: usize = 128;

/// Last labels that are the ending of a file or a systemd unit; none is a top-level domain.
const FILE_ENDINGS: [&str; 26] = [
    "png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "ts", "json", "yaml", "yml", "toml",
    "txt", "log", "gz", "tgz", "whl", "jar", "service", "timer", "socket", "target", "mount",
    "slice", "path",
];

/// The e-mail address that begins at `at`, unless it is a repository address or the login of a URL.
pub(super) fn email(view: &TextView<'_>, at: usize) -> Option<PiiMatch> {
    let text = view.rest(at);
    let mut near = text
        .char_indices()
        .take_while(|&(len, _)| len <= LOCAL_BYTES_MAX);
    let local = near
        .find(|&(_, c)| !is_local_part(c))
        .filter(|&(_, c)| c == '@')?
        .0;
    let domain = domain(&text[local + 1..])?;
    let end = local + 1 + domain.len();
    let is_repository =
        matches!(&text[..local], "git" | "hg" | "svn") && text[end..].starts_with([':', '/']);
    if is_repository || ends_in_url_login(view.before(at)) {
        return None;
    }
    Some(PiiMatch {
        end: at + end,
        kind: PiiKind::Email,
        normal_form: text[..end].to_lowercase(),
    })
}

fn is_local_part(c: char) -> bool {
    is_word_char(c) || matches!(c, '.' | '+' | '-' | '%' | '\'' | '&')
}

/// The longest domain at the start of a text: labels up to one that can be a top-level domain.
fn domain(text: &str) -> Option<&str> {
    let mut end = None;
    let mut begin = 0;
    let mut labels = Vec::new();
    loop {
        let in_label = |&(at, c): &(usize, char)| {
            at <= DOMAIN_BYTES_MAX && (is_word_char(c) && c != '_' || c == '-')
        };
        let run = text[begin..]
            .char_indices()
            .take_while(in_label)
            .map(|(_, c)| c.len_utf8())
            .sum::<usize>();
        let label = &text[begin..begin + run];
        if label.is_empty() || label.starts_with('-') || begin + run > DOMAIN_BYTES_MAX {
            break;
        }
        // The text after a hyphen may belong to the sentence ("example.com-based").
        let head = label.split('-').next().unwrap_or(label);
        if begin > 0 && is_top_level_label(label) {
            end = Some(begin + run);
        } else if begin > 0 && is_top_level_label(head) {
            end = Some(begin + head.len());
        }
        labels.push(label);
        if !text[begin + run..].starts_with('.') {
            break;
        }
        begin += run + 1;
    }
    let number = |label: &&str| label.bytes().all(|byte| byte.is_ascii_digit());
    let domain = &text[..end?];
    let is_version = labels.iter().take(2).all(number);
    let top = domain
        .rsplit('.')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    (!is_version && !FILE_ENDINGS.contains(&top.as_str())).then_some(domain)
}

fn is_top_level_label(label: &str) -> bool {
    let chars = label.chars().count();
    label.starts_with("xn--")
        || (2..=TLD_CHARS_MAX).contains(&chars) && label.chars().all(|c| c.is_alphabetic())
}

/// Whether the text before an address makes it the login of a URL: a scheme and no path after it.
fn ends_in_url_login(before: &str) -> bool {
    let near = before
        .char_indices()
        .rev()
        .take_while(|&(at, c)| before.len() - at <= SCHEME_BYTES_MAX && !c.is_whitespace());
    let begin = near.last().map_or(before.len(), |(at, _)| at);
    before[begin..]
        .rsplit_once("://")
        .is_some_and(|(_, host)| !host.contains(['/', '?', '#']))
}
