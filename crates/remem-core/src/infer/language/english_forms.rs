//! language::english_forms: computes the base forms of English words by rules of spelling; forms
//! that no rule gives are in the table of states.

use super::english_states::STATES;

/// The base form of a word. Forms that no rule gives are in the table; a word that only looks like
/// a form gets the same base form in every position, which is all a key needs.
pub(super) fn base_form(word: &str, progressive: bool) -> String {
    let states = &STATES;
    if let Some((_, base)) = states.irregular.iter().find(|(form, _)| *form == word) {
        return (*base).to_owned();
    }
    let plain = word.is_ascii()
        && !word.starts_with(|c: char| c.is_ascii_digit())
        && !states.verbs.contains(&word);
    if !plain || word.len() < 4 {
        return word.to_owned();
    }
    if let Some(stem) = word
        .strip_suffix("ied")
        .or_else(|| word.strip_suffix("ies"))
        .filter(|stem| stem.len() > 1)
    {
        return format!("{stem}y");
    }
    if let Some(stem) = word
        .strip_suffix("ed")
        .filter(|stem| has_vowel(stem) && !stem.ends_with('e'))
    {
        return restore_verb(stem);
    }
    if let Some(stem) = word
        .strip_suffix("ing")
        .filter(|stem| progressive && has_vowel(stem))
    {
        return restore_verb(stem);
    }
    let hissing = ["ses", "xes", "zes", "ches", "shes", "oes"]
        .iter()
        .any(|end| word.ends_with(end));
    if let Some(stem) = word.strip_suffix("es").filter(|stem| {
        hissing
            && (states.verbs.contains(stem) || !stem.ends_with(['s', 'z']) || stem.ends_with("ss"))
    }) {
        return stem.to_owned();
    }
    match word.strip_suffix('s') {
        Some(stem) if !stem.ends_with(['s', 'u', 'i']) => stem.to_owned(),
        _ => word.to_owned(),
    }
}

fn is_vowel(byte: u8) -> bool {
    b"aeiouy".contains(&byte)
}

fn has_vowel(stem: &str) -> bool {
    stem.bytes().any(is_vowel)
}

/// The verb before "-ed" or "-ing", restored from its stem: as it is, with its lost "e", or without
/// a doubled last letter.
fn restore_verb(stem: &str) -> String {
    let states = &STATES;
    let bytes = stem.as_bytes();
    let last = |back: usize| {
        bytes
            .len()
            .checked_sub(back)
            .and_then(|at| bytes.get(at))
            .copied()
            .unwrap_or(b' ')
    };
    let doubled = last(1) == last(2) && !is_vowel(last(1));
    let single = &stem[..stem.len().saturating_sub(1)];
    let with_e = format!("{stem}e");
    if states.verbs.contains(&stem) {
        return stem.to_owned();
    }
    if states.verbs.contains(&with_e.as_str()) {
        return with_e;
    }
    if doubled && (states.verbs.contains(&single) || !b"lszf".contains(&last(1))) {
        return single.to_owned();
    }
    let vowels = bytes.iter().filter(|byte| is_vowel(**byte)).count();
    // One vowel and one consonant: without an "e", the consonant would be doubled.
    let short = vowels == 1 && !is_vowel(last(1)) && is_vowel(last(2)) && !b"wx".contains(&last(1));
    let lost = b"vcguz".contains(&last(1))
        || (last(1) == b's' && last(2) != b's')
        || (last(1) == b'l' && !is_vowel(last(2)) && last(2) != b'l');
    let ending = vowels > 1
        && ["at", "ir", "ur", "in", "it"]
            .iter()
            .any(|end| stem.ends_with(end))
        && !is_vowel(last(3))
        && !stem.ends_with("it");
    if short || lost || ending {
        with_e
    } else {
        stem.to_owned()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn inflected_verbs_share_a_base_form() {
        let base = |word: &str| super::base_form(word, true);
        for (forms, expected) in [
            ("clear clears cleared clearing", "clear"),
            ("send sends sent sending", "send"),
            ("pay pays paid paying", "pay"),
            ("file files filed filing", "file"),
            ("merge merges merged merging", "merge"),
            ("ship ships shipped shipping", "ship"),
            ("pass passes passed passing", "pass"),
            ("reply replies replied replying", "reply"),
            ("finish finishes finished finishing", "finish"),
            ("close closes closed closing", "close"),
            ("fix fixes fixed fixing", "fix"),
            ("run runs ran running", "run"),
            ("go goes went gone going", "go"),
            ("release releases released releasing", "release"),
            ("bake bakes baked baking", "bake"),
            ("enable enables enabled enabling", "enable"),
            ("visit visits visited visiting", "visit"),
            ("scan scans scanned scanning", "scan"),
            ("invoice invoices invoiced", "invoice"),
            ("status", "status"),
            ("hundred", "hundr"),
            ("äpfel", "äpfel"),
        ] {
            for form in forms.split(' ') {
                assert_eq!(base(form), expected, "{form}");
            }
        }
    }
}
