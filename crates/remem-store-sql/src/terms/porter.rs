//! The Porter stemmer as FTS5 implements it: the endings that are removed, and their replacements.
//!
//! It works on the bytes of a folded token and may not know of characters: like FTS5 it takes every
//! byte of a letter outside ASCII for a consonant, and may halve such a letter where it removes a
//! double consonant (that is why stems are bytes, not text).

/// FTS5 stems no word that is shorter or longer than this, in bytes.
const BYTES_MIN: usize = 3;
const BYTES_MAX: usize = 64;

/// An ending and its replacement. Among the rules of a step, the first whose ending fits decides,
/// even if the rest of the word is then too short for it.
type SuffixRule = (&'static str, &'static str);

/// Reduces a word to its stem, in place.
pub(super) fn stem(word: &mut Vec<u8>) {
    if !(BYTES_MIN..=BYTES_MAX).contains(&word.len()) {
        return;
    }
    drop_plural(word);
    drop_past_or_gerund(word);
    if let [before @ .., b'y'] = word.as_slice()
        && has_vowel(before)
    {
        replace(word, 1, b"i");
    }
    apply_suffix_rule(word, long_endings, 1);
    apply_suffix_rule(word, short_endings, 1);
    apply_suffix_rule(word, last_endings, 2);
    drop_final(word);
}

/// Step 1a of the algorithm: plural endings.
fn drop_plural(word: &mut Vec<u8>) {
    let cut = match word.as_slice() {
        [_, .., b's', b's', b'e', b's'] | [_, .., b'i', b'e', b's'] => 2,
        [.., b's', b's'] => 0,
        [.., b's'] => 1,
        _ => 0,
    };
    replace(word, cut, b"");
}

/// Step 1b, with the repair of the stem that the ending leaves.
fn drop_past_or_gerund(word: &mut Vec<u8>) {
    let cut = match word.as_slice() {
        [before @ .., b'e', b'e', b'd'] if !before.is_empty() => {
            let cut = usize::from(measure(before) > 0);
            return replace(word, cut, b"");
        }
        [before @ .., b'e', b'd'] if has_vowel(before) => 2,
        [before @ .., b'i', b'n', b'g'] if has_vowel(before) => 3,
        _ => return,
    };
    replace(word, cut, b"");
    match word.as_slice() {
        [_, .., b'a', b't'] | [_, .., b'b', b'l'] | [_, .., b'i', b'z'] => word.push(b'e'),
        [.., a, b]
            if a == b && !matches!(b, b'a' | b'e' | b'i' | b'o' | b'u' | b'l' | b's' | b'z') =>
        {
            replace(word, 1, b"")
        }
        short if measure(short) == 1 && ends_cvc(short) => word.push(b'e'),
        _ => {}
    }
}

/// Applies one of steps 2 to 4: the rules are looked up by the last letter but one, since a word
/// would try too many endings otherwise.
fn apply_suffix_rule(
    word: &mut Vec<u8>,
    rules: fn(u8) -> &'static [SuffixRule],
    measure_min: usize,
) {
    let [.., key, _] = word.as_slice() else {
        return;
    };
    let fits =
        |(ending, _): &&SuffixRule| word.len() > ending.len() && word.ends_with(ending.as_bytes());
    let Some((ending, replacement)) = rules(*key).iter().find(fits) else {
        return;
    };
    let before = &word[..word.len() - ending.len()];
    let allowed = *ending != "ion" || matches!(before, [.., b's' | b't']);
    if allowed && measure(before) >= measure_min {
        replace(word, ending.len(), replacement.as_bytes());
    }
}

/// The rules of step 2, by the last letter but one.
fn long_endings(key: u8) -> &'static [SuffixRule] {
    match key {
        b'a' => &[("ational", "ate"), ("tional", "tion")],
        b'c' => &[("enci", "ence"), ("anci", "ance")],
        b'e' => &[("izer", "ize")],
        b'g' => &[("logi", "log")],
        b'l' => &[
            ("bli", "ble"),
            ("alli", "al"),
            ("entli", "ent"),
            ("eli", "e"),
            ("ousli", "ous"),
        ],
        b'o' => &[("ization", "ize"), ("ation", "ate"), ("ator", "ate")],
        b's' => &[
            ("alism", "al"),
            ("iveness", "ive"),
            ("fulness", "ful"),
            ("ousness", "ous"),
        ],
        b't' => &[("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")],
        _ => &[],
    }
}

/// The rules of step 3, by the last letter but one.
fn short_endings(key: u8) -> &'static [SuffixRule] {
    match key {
        b'a' => &[("ical", "ic")],
        b's' => &[("ness", "")],
        b't' => &[("icate", "ic"), ("iciti", "ic")],
        b'u' => &[("ful", "")],
        b'v' => &[("ative", "")],
        b'z' => &[("alize", "al")],
        _ => &[],
    }
}

/// The rules of step 4, by the last letter but one.
fn last_endings(key: u8) -> &'static [SuffixRule] {
    match key {
        b'a' => &[("al", "")],
        b'c' => &[("ance", ""), ("ence", "")],
        b'e' => &[("er", "")],
        b'i' => &[("ic", "")],
        b'l' => &[("able", ""), ("ible", "")],
        b'n' => &[("ant", ""), ("ement", ""), ("ment", ""), ("ent", "")],
        b'o' => &[("ion", ""), ("ou", "")],
        b's' => &[("ism", "")],
        b't' => &[("ate", ""), ("iti", "")],
        b'u' => &[("ous", "")],
        b'v' => &[("ive", "")],
        b'z' => &[("ize", "")],
        _ => &[],
    }
}

/// Step 5: removes a final e, then one of two final l.
fn drop_final(word: &mut Vec<u8>) {
    if let [before @ .., b'e'] = word.as_slice() {
        let measure = measure(before);
        if measure > 1 || (measure == 1 && !ends_cvc(before)) {
            replace(word, 1, b"");
        }
    }
    if let [before @ .., b'l'] = word.as_slice()
        && before.ends_with(b"l")
        && measure(before) > 1
    {
        replace(word, 1, b"");
    }
}

fn replace(word: &mut Vec<u8>, cut: usize, with: &[u8]) {
    word.truncate(word.len() - cut);
    word.extend_from_slice(with);
}

/// Returns for each letter whether it is a vowel; y is one after a consonant.
fn vowels(letters: &[u8]) -> impl Iterator<Item = bool> {
    letters.iter().scan(false, |after_consonant, letter| {
        let vowel = matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u')
            || (*letter == b'y' && *after_consonant);
        *after_consonant = !vowel;
        Some(vowel)
    })
}

fn has_vowel(letters: &[u8]) -> bool {
    vowels(letters).any(|vowel| vowel)
}

/// Porter's m: the number of times that a consonant follows a vowel.
fn measure(letters: &[u8]) -> usize {
    let mut after_vowel = false;
    vowels(letters)
        .filter(|vowel| std::mem::replace(&mut after_vowel, *vowel) && !vowel)
        .count()
}

/// Whether the word ends in consonant, vowel, consonant, the last not w, x or y (hop, but not how).
fn ends_cvc(letters: &[u8]) -> bool {
    if letters.len() < 3 || matches!(letters, [.., b'w' | b'x' | b'y']) {
        return false;
    }
    vowels(letters)
        .skip(letters.len() - 3)
        .eq([false, true, false])
}
