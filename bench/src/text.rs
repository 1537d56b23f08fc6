//! Text to measure with: prose-like and the same in every run. Words are drawn so that the n-th
//! most common one comes about 1/n as often as the first, as in real text, because index sizes and
//! search costs follow from that.

/// A small generator of repeatable numbers (splitmix64); nothing here needs to be unguessable.
pub struct SeededRandom(u64);

impl SeededRandom {
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A random number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Random letters and digits, as in keys.
    pub fn key(&mut self, chars: usize) -> String {
        const SYMBOLS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        (0..chars)
            .map(|_| char::from(SYMBOLS[self.below(SYMBOLS.len())]))
            .collect()
    }
}

/// The most common words, in about the order of English.
const COMMON: &str = "the of and to in a is that for it was on are as with they be at this from have or by one had not but \
    what all were when we there can an your which their said if do will each about how up out them then she many some so \
    these would other into has more her two like him see time could no make than first been its who now people my made over \
    did down only way find use may water long little very after words called just where most know get through back much go \
    good new write our me man too any day same right look think also around another came come work three must because does \
    part even place well such here take why help put different away again off went old number meeting customer project \
    server deploy report team account order invoice travel flight hotel coffee tea birthday";

const SYLLABLES: &[&str] = &[
    "an", "ber", "cal", "dor", "el", "fin", "gar", "hol", "in", "jor", "kel", "lam", "mer", "nor",
    "os", "pel", "quin", "ral", "sen", "tor", "ul", "ver", "wil", "xan", "yor", "zel", "tri",
    "sta", "pro", "con", "ment", "tion", "ing", "er", "ly", "ness",
];

/// The words to draw from, most common first.
pub struct WordList {
    words: Vec<String>,
}

impl WordList {
    pub fn new(size: usize) -> WordList {
        let mut random = SeededRandom::new(1);
        let mut words: Vec<String> = COMMON.split_whitespace().map(str::to_owned).collect();
        while words.len() < size {
            let syllables = 2 + random.below(3);
            words.push(
                (0..syllables)
                    .map(|_| SYLLABLES[random.below(SYLLABLES.len())])
                    .collect(),
            );
        }
        WordList { words }
    }

    /// The word at a rank, 0 being the most common.
    pub fn at(&self, rank: usize) -> &str {
        &self.words[rank.min(self.words.len() - 1)]
    }

    fn draw(&self, random: &mut SeededRandom) -> &str {
        let rank = (self.words.len() as f64).powf(random.fraction());
        self.at(rank as usize - 1)
    }

    /// At least `bytes` of sentences, with an occasional number, date, path, address or accent.
    pub fn prose(&self, random: &mut SeededRandom, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 64);
        let mut left_in_sentence = 0;
        while text.len() < bytes {
            let begins = left_in_sentence == 0;
            if begins {
                left_in_sentence = 6 + random.below(14);
            }
            left_in_sentence -= 1;
            self.token(random, begins, &mut text);
            text.push_str(match (left_in_sentence, random.below(12)) {
                (0, 0) => ".\n",
                (0, _) => ". ",
                (_, 0) => ", ",
                _ => " ",
            });
        }
        text
    }

    fn token(&self, random: &mut SeededRandom, begins: bool, text: &mut String) {
        match random.below(200) {
            0 => text.push_str(&format!(
                "20{:02}-{:02}-{:02}",
                20 + random.below(7),
                1 + random.below(12),
                1 + random.below(28)
            )),
            1 => text.push_str(&random.below(10_000).to_string()),
            2 => text.push_str(&format!(
                "/srv/{}/{}.toml",
                self.draw(random),
                self.draw(random)
            )),
            3 => text.push_str(&format!(
                "https://{}.example/{}?id={}",
                self.draw(random),
                self.draw(random),
                random.below(9_999)
            )),
            4 => text.push_str("Zürich"),
            5 => text.push_str(&format!("\"{}\"", self.draw(random))),
            6 => text.push_str(&format!("{:08x}", random.next() as u32)),
            _ if begins => {
                let word = self.draw(random);
                text.push_str(&word[..1].to_uppercase());
                text.push_str(&word[1..]);
            }
            _ => text.push_str(self.draw(random)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_deterministic_per_seed_and_long_enough() {
        let prose = |seed| WordList::new(5_000).prose(&mut SeededRandom::new(seed), 2_000);
        assert_eq!(prose(7), prose(7));
        assert_ne!(prose(7), prose(8));
        assert!((2_000..2_100).contains(&prose(7).len()));
    }
}
