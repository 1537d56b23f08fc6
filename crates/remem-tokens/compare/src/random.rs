//! Random texts of several kinds, the same ones for the same seed.

use bpe_openai::o200k_base;

/// A splitmix64 generator of random numbers.
pub struct SplitMix(pub u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A bound for the length of a text: mostly small, sometimes large.
    pub fn pick_length(&mut self) -> usize {
        self.pick(&[8, 40, 40, 300, 300, 3_000, 30_000])
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A function that makes a text of about the given number of bytes.
pub type TextMaker = fn(&mut SplitMix, usize) -> String;

/// All kinds of random texts, with their names.
pub const KINDS: [(&str, TextMaker); 8] = [
    ("random bytes, read as UTF-8", bytes),
    ("random code points", code_points),
    ("characters around blocks of scripts", scripts),
    ("pieces of the vocabulary", vocabulary),
    ("pieces of the vocabulary, broken", broken_vocabulary),
    ("the characters that the pattern names", pattern),
    ("repetitions", repetitions),
    ("random letters without a space", letters),
];

fn bytes(random: &mut SplitMix, length: usize) -> String {
    let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn filled(length: usize, mut add: impl FnMut(&mut String)) -> String {
    let mut text = String::new();
    while text.len() < length {
        add(&mut text);
    }
    text
}

fn code_points(random: &mut SplitMix, length: usize) -> String {
    let bounds = [0x80, 0x800, 0x3000, 0x1_0000, 0x2_0000, 0x11_0000];
    filled(length, |text| {
        let bound = random.pick(&bounds);
        text.extend(char::from_u32(random.below(bound) as u32));
    })
}

/// Stays within a few neighbouring characters for a while, as writing does, with a space or a digit
/// now and then.
fn scripts(random: &mut SplitMix, length: usize) -> String {
    filled(length, |text| {
        let first = random.below(0x2_0000) as u32;
        for _ in 0..random.below(30) {
            let code = first + random.below(48) as u32;
            text.extend(char::from_u32(code));
        }
        text.push_str(random.pick(&["", " ", " ", "  ", "\n", "1", ", ", "'s "]));
    })
}

fn vocabulary(random: &mut SplitMix, length: usize) -> String {
    let tokens = &o200k_base().bpe;
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let token = random.below(tokens.num_tokens()) as u32;
        bytes.extend_from_slice(tokens.token_bytes(token));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Tokens cut short and glued together, so that they are merged in unusual ways.
fn broken_vocabulary(random: &mut SplitMix, length: usize) -> String {
    let tokens = &o200k_base().bpe;
    filled(length, |text| {
        let token = tokens.token_bytes(random.below(tokens.num_tokens()) as u32);
        let token = String::from_utf8_lossy(token);
        let kept = random.below(token.chars().count() + 1);
        let skipped = random.below(2);
        text.extend(token.chars().filter(|c| *c != ' ').skip(skipped).take(kept));
    })
}

fn pattern(random: &mut SplitMix, length: usize) -> String {
    const CHARACTERS: [&str; 40] = [
        "a", "b", "S", "T", "LL", "ll", "re", "Ve", "m", "D", "ſ", "K", "ǅ", "ʰ", "ª", "日", "か",
        "\u{301}", "\u{93e}", "\u{fe0f}", "1", "23", "½", "Ⅷ", " ", " ", "  ", "\n", "\r\n", "\r",
        "\t", "\u{a0}", "\u{85}", "\u{3000}", "'", "'", "/", "!", "\u{200d}", "😀",
    ];
    filled(length, |text| text.push_str(random.pick(&CHARACTERS)))
}

fn repetitions(random: &mut SplitMix, length: usize) -> String {
    let tokens = &o200k_base().bpe;
    filled(length, |text| {
        let token = tokens.token_bytes(random.below(tokens.num_tokens()) as u32);
        let unit = String::from_utf8_lossy(token);
        let unit: String = unit.chars().take(1 + random.below(4)).collect();
        text.push_str(&unit.repeat(1 + random.below(400)));
    })
}

fn letters(random: &mut SplitMix, length: usize) -> String {
    let alphabets = [
        &b"ab"[..],
        b"etaoinshrdlu",
        b"abcdefghijklmnopqrstuvwxyz",
        b"ACGT",
    ];
    let alphabet = random.pick(&alphabets);
    filled(length, |text| text.push(char::from(random.pick(alphabet))))
}
