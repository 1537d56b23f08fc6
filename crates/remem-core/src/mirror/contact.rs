//! Owns e-mail addresses: what one looks like in running text, and what only looks like one (logins
//! in URLs, versions of packages, names of files and of units). It may not look anything up.

use super::PiiKind;
use super::view::{Found, View, joins};

const LOCAL_BYTES_MAX: usize = 128;
const DOMAIN_BYTES_MAX: usize = 253;
const TLD_CHARS_MAX: usize = 24;
/// How far back a URL's scheme is looked for.
const SCHEME_BYTES_MAX: usize = 128;

/// Last labels that name a file or a unit of systemd; none is a top-level domain.
const NO_DOMAINS: [&str; 26] = [
    "png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "ts", "json", "yaml", "yml", "toml",
    "txt", "log", "gz", "tgz", "whl", "jar", "service", "timer", "socket", "target", "mount",
    "slice", "path",
];

/// The address that begins here.
pub(super) fn email(view: &View<'_>, at: usize) -> Option<Found> {
    let text = view.rest(at);
    let mut near = text
        .char_indices()
        .take_while(|&(len, _)| len <= LOCAL_BYTES_MAX);
    let local = near
        .find(|&(_, c)| !is_local(c))
        .filter(|&(_, c)| c == '@')?
        .0;
    let domain = domain(&text[local + 1..])?;
    let end = local + 1 + domain.len();
    let is_repository =
        matches!(&text[..local], "git" | "hg" | "svn") && text[end..].starts_with([':', '/']);
    if is_repository || is_login(view.before(at)) {
        return None;
    }
    Some(Found {
        end: at + end,
        kind: PiiKind::Email,
        normal: text[..end].to_lowercase(),
    })
}

fn is_local(c: char) -> bool {
    joins(c) || matches!(c, '.' | '+' | '-' | '%' | '\'' | '&')
}

/// The longest domain that a text begins with: labels up to one of letters alone.
fn domain(text: &str) -> Option<&str> {
    let mut end = None;
    let mut begin = 0;
    let mut labels = Vec::new();
    loop {
        let in_label =
            |&(at, c): &(usize, char)| at <= DOMAIN_BYTES_MAX && (joins(c) && c != '_' || c == '-');
        let run = text[begin..]
            .char_indices()
            .take_while(in_label)
            .map(|(_, c)| c.len_utf8())
            .sum::<usize>();
        let label = &text[begin..begin + run];
        if label.is_empty() || label.starts_with('-') || begin + run > DOMAIN_BYTES_MAX {
            break;
        }
        // What follows a hyphen may be the sentence's own.
        let head = label.split('-').next().unwrap_or(label);
        if begin > 0 && is_top(label) {
            end = Some(begin + run);
        } else if begin > 0 && is_top(head) {
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
    (!is_version && !NO_DOMAINS.contains(&top.as_str())).then_some(domain)
}

fn is_top(label: &str) -> bool {
    let chars = label.chars().count();
    label.starts_with("xn--")
        || (2..=TLD_CHARS_MAX).contains(&chars) && label.chars().all(|c| c.is_alphabetic())
}

/// Whether the text leads into the login of a URL: a scheme, and no path yet.
fn is_login(before: &str) -> bool {
    let near = before
        .char_indices()
        .rev()
        .take_while(|&(at, c)| before.len() - at <= SCHEME_BYTES_MAX && !c.is_whitespace());
    let begin = near.last().map_or(before.len(), |(at, _)| at);
    before[begin..]
        .rsplit_once("://")
        .is_some_and(|(_, host)| !host.contains(['/', '?', '#']))
}
