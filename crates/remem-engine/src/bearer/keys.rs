//! The public keys that tokens are signed with: parsing a JWKS document, and verifying signatures.
//! Pure: the document comes from the port `Keyset`. Only asymmetric algorithms exist here, so that
//! a public key can never be taken for a shared secret.

use crate::ports::KeysetError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use remem_core::sabotage;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;

/// Keys in one document, at most.
const KEYS_MAX: usize = 100;
/// Bytes of an RSA modulus: shorter ones can be broken, longer ones cost more than a request may.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// The algorithm of a token's signature. Algorithms with a shared secret, and `none`, are not in
/// this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA, PKCS#1 v1.5, SHA-256.
    Rs256,
    /// RSA, PKCS#1 v1.5, SHA-384.
    Rs384,
    /// RSA, PKCS#1 v1.5, SHA-512.
    Rs512,
    /// RSA, PSS padding, SHA-256.
    Ps256,
    /// RSA, PSS padding, SHA-384.
    Ps384,
    /// RSA, PSS padding, SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519, as RFC 8037 defines it.
    EdDsa,
}

impl Algorithm {
    /// Every algorithm, for parsing and tests.
    pub const ALL: [Algorithm; 9] = [
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
    ];
    /// The algorithms that are accepted by default.
    pub const DEFAULT: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];

    /// The name in a token's header.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// Parses the exact name of an algorithm.
    #[must_use]
    pub fn parse(name: &str) -> Option<Algorithm> {
        Algorithm::ALL
            .into_iter()
            .find(|algorithm| algorithm.as_str() == name)
    }

    /// The parameters of an RSA algorithm.
    fn rsa(self) -> Option<&'static RsaParameters> {
        match self {
            Algorithm::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::Rs384 => Some(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::Rs512 => Some(&RSA_PKCS1_2048_8192_SHA512),
            Algorithm::Ps256 => Some(&RSA_PSS_2048_8192_SHA256),
            Algorithm::Ps384 => Some(&RSA_PSS_2048_8192_SHA384),
            Algorithm::Ps512 => Some(&RSA_PSS_2048_8192_SHA512),
            Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => None,
        }
    }
}

/// The components of a public key, by its type.
enum KeyMaterial {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Identifies a key: a digest of its components.
pub type KeyFingerprint = [u8; 32];

/// One public key of an issuer.
pub struct PublicKey {
    kid: Option<String>,
    algorithm: Option<Algorithm>,
    material: KeyMaterial,
    fingerprint: KeyFingerprint,
}

/// The usable keys of a JWKS document.
pub struct PublicKeys {
    keys: Vec<PublicKey>,
    unusable: usize,
}

/// The JSON of a JWKS document.
#[derive(Deserialize)]
struct JwksDocument {
    keys: Vec<Value>,
}

/// The JSON of one key.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    d: Option<serde::de::IgnoredAny>,
}

impl PublicKeys {
    /// Parses a JWKS document. Keys that cannot be used (encryption keys, shared secrets, other
    /// curves, and private keys, which should not be there) are left out and counted.
    pub fn parse(document: &[u8]) -> Result<PublicKeys, KeysetError> {
        let document: JwksDocument =
            serde_json::from_slice(document).map_err(|_| KeysetError::Malformed)?;
        if document.keys.len() > KEYS_MAX {
            return Err(KeysetError::TooLarge);
        }
        let all = document.keys.len();
        let keys: Vec<PublicKey> = document.keys.into_iter().filter_map(parse_key).collect();
        Ok(PublicKeys {
            unusable: all - keys.len(),
            keys,
        })
    }

    /// Number of usable keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no usable key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of keys in the document that are not usable.
    #[must_use]
    pub fn unusable(&self) -> usize {
        self.unusable
    }

    /// Whether the document (still) contains this key.
    pub(super) fn contains(&self, fingerprint: &KeyFingerprint) -> bool {
        self.keys.iter().any(|key| key.fingerprint == *fingerprint)
    }

    /// The keys that a token may be signed with: those with its key id, or the only key if it names
    /// none.
    pub(super) fn candidates(&self, kid: Option<&str>) -> Vec<&PublicKey> {
        match kid {
            Some(kid) => self
                .keys
                .iter()
                .filter(|key| key.kid.as_deref() == Some(kid))
                .collect(),
            None if self.keys.len() == 1 => self.keys.iter().collect(),
            None => Vec::new(),
        }
    }
}

impl PublicKey {
    /// Whether the key can make signatures with this algorithm, by its type and by the purpose that
    /// the document states.
    pub(super) fn supports(&self, algorithm: Algorithm) -> bool {
        let by_type = match self.material {
            KeyMaterial::Rsa { .. } => algorithm.rsa().is_some(),
            KeyMaterial::P256(_) => algorithm == Algorithm::Es256,
            KeyMaterial::P384(_) => algorithm == Algorithm::Es384,
            KeyMaterial::Ed25519(_) => algorithm == Algorithm::EdDsa,
        };
        sabotage!(
            "a-key-verifies-any-algorithm",
            by_type && self.algorithm.is_none_or(|own| own == algorithm),
            by_type || self.algorithm.is_none_or(|own| own == algorithm)
        )
    }

    /// Verifies a signature; false for an algorithm that the key does not support.
    pub(super) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let verify_point = |scheme: &'static dyn VerificationAlgorithm, point: &[u8]| {
            UnparsedPublicKey::new(scheme, point).verify(message, signature)
        };
        let verified = match (&self.material, algorithm.rsa()) {
            _ if !self.supports(algorithm) => return false,
            (KeyMaterial::Rsa { n, e }, Some(parameters)) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (KeyMaterial::Rsa { .. }, None) => return false,
            (KeyMaterial::P256(point), _) => verify_point(&ECDSA_P256_SHA256_FIXED, point),
            (KeyMaterial::P384(point), _) => verify_point(&ECDSA_P384_SHA384_FIXED, point),
            (KeyMaterial::Ed25519(point), _) => verify_point(&ED25519, point),
        };
        sabotage!("any-signature-does-for-a-token", verified.is_ok(), true)
    }

    /// The digest that identifies the key.
    pub(super) fn fingerprint(&self) -> KeyFingerprint {
        self.fingerprint
    }
}

/// Parses one key; `None` if it cannot be used to verify signatures.
fn parse_key(value: Value) -> Option<PublicKey> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let for_signatures = jwk
        .purpose
        .as_deref()
        .is_none_or(|purpose| purpose == "sig")
        && jwk
            .key_ops
            .as_ref()
            .is_none_or(|ops| ops.iter().any(|op| op == "verify"));
    if sabotage!(
        "private-and-encryption-keys-verify",
        !for_signatures || jwk.d.is_some(),
        false
    ) {
        return None;
    }
    let algorithm = jwk
        .alg
        .as_deref()
        .map(|name| Algorithm::parse(name).ok_or(()))
        .transpose()
        .ok()?;
    let material = key_material(&jwk)?;
    let fingerprint = fingerprint_of(&material);
    let key = PublicKey {
        kid: jwk.kid,
        algorithm,
        material,
        fingerprint,
    };
    // A key whose stated algorithm does not match its type is not usable.
    algorithm.is_none_or(|own| key.supports(own)).then_some(key)
}

/// The components of a key; `None` for types and curves that are not supported.
fn key_material(jwk: &Jwk) -> Option<KeyMaterial> {
    let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
    let part =
        |text: &Option<String>, length: usize| bytes(text).filter(|bytes| bytes.len() == length);
    let point =
        |length: usize| Some([vec![4], part(&jwk.x, length)?, part(&jwk.y, length)?].concat());
    match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => {
            let n = bytes(&jwk.n)?;
            let e = bytes(&jwk.e)?;
            RSA_BYTES
                .contains(&n.len())
                .then_some(KeyMaterial::Rsa { n, e })
        }
        ("EC", Some("P-256")) => Some(KeyMaterial::P256(point(32)?)),
        ("EC", Some("P-384")) => Some(KeyMaterial::P384(point(48)?)),
        ("OKP", Some("Ed25519")) => Some(KeyMaterial::Ed25519(part(&jwk.x, 32)?)),
        _ => None,
    }
}

/// The digest of a key's components.
fn fingerprint_of(material: &KeyMaterial) -> KeyFingerprint {
    let (kind, first, second): (&[u8], &[u8], &[u8]) = match material {
        KeyMaterial::Rsa { n, e } => (b"rsa:", n, e),
        KeyMaterial::P256(point) => (b"p256", point, &[]),
        KeyMaterial::P384(point) => (b"p384", point, &[]),
        KeyMaterial::Ed25519(point) => (b"ed25", point, &[]),
    };
    let mut digest = blake3::Hasher::new();
    digest
        .update(kind)
        .update(&(first.len() as u64).to_le_bytes())
        .update(first)
        .update(second);
    *digest.finalize().as_bytes()
}
