//! The erasure report: what was erased, as ids and digests, signed by the host so that anyone who
//! keeps the report can prove it.

use crate::engine::{Engine, HostKey};
use crate::error::EngineError;
use crate::webhook::send::hex;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use remem_core::record::or_default;
use remem_core::sabotage;
use remem_core::{RecordKind, StoredRecord, Subject, TenantId};
use remem_store::TracedEntry;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Name of the signature algorithm in reports.
const ALGORITHM: &str = "Ed25519";

/// One erased entry, as the report names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasedEntry {
    /// The memory that the entry was in.
    pub memory_ref: String,
    /// The id of the entry.
    pub id: String,
    /// Keyed digest of the erased text: this host can check whether a given text was erased, and
    /// the text cannot be guessed from the digest.
    pub content_hash: String,
}

/// Counts of what was erased in memories of single users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrivateCounts {
    /// Number of erased entries.
    pub erased: u64,
    /// Number of entries that are live again, because the entry they were merged into is gone.
    pub revived: u64,
    /// Number of erased archives.
    pub archives: u64,
}

impl PrivateCounts {
    pub(super) fn add(&mut self, more: PrivateCounts) {
        self.erased += more.erased;
        self.revived += more.revived;
        self.archives += more.archives;
    }
}

/// One page of a report that names too much for one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportPage {
    /// SHA-256 of the page as canonical JSON, in hex.
    pub sha256: String,
    /// Number of erased entries that the page names.
    pub erased: u64,
    /// Number of revived entries that the page names.
    pub revived: u64,
    /// Number of archives that the page names.
    pub archives: u64,
}

impl ReportPage {
    /// The line of a page in its report.
    pub(super) fn of(part: &ErasureReport, sha256: String) -> ReportPage {
        ReportPage {
            sha256,
            erased: part.erased.len() as u64,
            revived: part.revived.len() as u64,
            archives: part.archives.len() as u64,
        }
    }
}

/// The report of one erasure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasureReport {
    /// The id of the report.
    pub id: String,
    /// The tenant whose data was erased.
    pub tenant: String,
    /// When it was erased, in RFC 3339.
    pub at: String,
    /// The first four bytes of the subject's digest.
    pub subject: String,
    /// The erased entries of shared memories.
    pub erased: Vec<ErasedEntry>,
    /// Entries of shared memories that had been merged into an erased one and are live again.
    pub revived: Vec<(String, String)>,
    /// Digests of the archives whose bytes are gone.
    pub archives: Vec<String>,
    /// The pages that name what was erased, if it is too much for one record; then the lists above
    /// are empty.
    pub pages: Vec<ReportPage>,
    /// Counts for memories of single users. They are part of the totals, but their entries are not
    /// named.
    pub private: PrivateCounts,
    /// Number of open commitments that ended with the entries; absent in reports from before there
    /// were commitments.
    pub commitments: Option<u64>,
    /// When the last backup that may contain the text is deleted, if the operator configured how
    /// long backups are kept.
    pub backups_until: Option<String>,
}

/// A report with the host's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedReport {
    /// The report that is signed.
    pub report: ErasureReport,
    /// The host's public key in base64; empty if the report is not signed.
    pub public_key: String,
    /// The signature over the report's canonical bytes in base64; empty if the report is not
    /// signed.
    pub signature: String,
}

impl ErasedEntry {
    pub(super) fn new(key: &HostKey, entry: &TracedEntry) -> ErasedEntry {
        let secret = key.derive("remembrancer erased text v1");
        let digest = |hash: &[u8; 16]| blake3::keyed_hash(&secret, hash).to_hex().to_string();
        ErasedEntry {
            memory_ref: entry.memory_ref.as_str().to_owned(),
            id: entry.id.as_str().to_owned(),
            content_hash: entry.content_hash.as_ref().map(digest).unwrap_or_default(),
        }
    }
}

/// This host cannot erase backups: the report states until when they exist, or that this is
/// unknown.
const NO_BACKUPS: &str = "this host was not told how long copies of its storage are kept: copies made before `at` hold the text";
const REPLAYS: &str = "what ended runs recorded of their reads is kept for their replays until the runs themselves are removed";

/// The body of a report's record. Its form is signed, so none of it may ever change.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredReport {
    id: String,
    tenant: String,
    at: String,
    subject: String,
    #[serde(default, deserialize_with = "or_default")]
    counts: StoredCounts,
    erased: Vec<StoredErased>,
    revived: Vec<StoredRevived>,
    archives: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    backups: StoredBackups,
    #[serde(default, deserialize_with = "or_default")]
    kept: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pages: Vec<ReportPage>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    signature: Option<ReportSignature>,
}

/// The counts of a stored report, named or not.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StoredCounts {
    #[serde(deserialize_with = "or_default")]
    erased: u64,
    #[serde(deserialize_with = "or_default")]
    revived: u64,
    #[serde(deserialize_with = "or_default")]
    archives: u64,
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    commitments: Option<u64>,
}

/// An erased entry in a stored report.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredErased {
    memory_ref: String,
    id: String,
    content_hash: String,
}

/// An entry in a stored report that is live again.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredRevived {
    memory_ref: String,
    id: String,
}

/// What a stored report says about backups: until when they exist, or that this is unknown.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredBackups {
    #[serde(deserialize_with = "or_default")]
    held_until: Option<String>,
    #[serde(
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    note: Option<String>,
}

/// The signature in a stored report.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReportSignature {
    #[serde(deserialize_with = "or_default")]
    algorithm: String,
    #[serde(deserialize_with = "or_default")]
    public_key: String,
    #[serde(deserialize_with = "or_default")]
    value: String,
}

impl StoredRecord for StoredReport {
    const KIND: RecordKind = RecordKind::Erasure;

    fn key(&self) -> String {
        self.id.clone()
    }
}

impl ErasureReport {
    /// The report as JSON, as it is stored, sent and signed.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        self.to_stored(None).to_map()
    }

    /// The report as it is stored, with its signature if it has one.
    fn to_stored(&self, signature: Option<ReportSignature>) -> StoredReport {
        let erased = |one: &ErasedEntry| StoredErased {
            memory_ref: one.memory_ref.clone(),
            id: one.id.clone(),
            content_hash: one.content_hash.clone(),
        };
        let revived = |(memory_ref, id): &(String, String)| StoredRevived {
            memory_ref: memory_ref.clone(),
            id: id.clone(),
        };
        StoredReport {
            id: self.id.clone(),
            tenant: self.tenant.clone(),
            at: self.at.clone(),
            subject: self.subject.clone(),
            counts: StoredCounts {
                erased: self.count_erased(),
                revived: self.count_revived(),
                archives: self.count_archives(),
                // An older report must keep its form without this count, or its signature would
                // be invalid.
                commitments: sabotage!(
                    "old-erasure-reports-are-changed",
                    self.commitments,
                    self.commitments.or(Some(0))
                ),
            },
            erased: self.erased.iter().map(erased).collect(),
            revived: self.revived.iter().map(revived).collect(),
            archives: self.archives.clone(),
            backups: StoredBackups {
                held_until: self.backups_until.clone(),
                note: self.backups_until.is_none().then(|| NO_BACKUPS.to_owned()),
            },
            kept: REPLAYS.to_owned(),
            pages: self.pages.clone(),
            signature,
        }
    }

    /// Reads the JSON of a stored report.
    pub(super) fn from_map(map: &Map<String, Value>) -> Option<ErasureReport> {
        StoredReport::from_map(map).map(ErasureReport::from_stored)
    }

    fn from_stored(stored: StoredReport) -> ErasureReport {
        let counts = stored.counts;
        // What is counted but not named was in memories of single users.
        let unnamed = |counted: u64, named: usize, on_page: fn(&ReportPage) -> u64| {
            let on_pages: u64 = stored.pages.iter().map(on_page).sum();
            counted.saturating_sub(named as u64 + on_pages)
        };
        let erased = |one: StoredErased| ErasedEntry {
            memory_ref: one.memory_ref,
            id: one.id,
            content_hash: one.content_hash,
        };
        ErasureReport {
            private: PrivateCounts {
                erased: unnamed(counts.erased, stored.erased.len(), |page| page.erased),
                revived: unnamed(counts.revived, stored.revived.len(), |page| page.revived),
                archives: unnamed(counts.archives, stored.archives.len(), |page| page.archives),
            },
            id: stored.id,
            tenant: stored.tenant,
            at: stored.at,
            subject: stored.subject,
            erased: stored.erased.into_iter().map(erased).collect(),
            revived: stored
                .revived
                .into_iter()
                .map(|one| (one.memory_ref, one.id))
                .collect(),
            archives: stored.archives,
            commitments: counts.commitments,
            backups_until: stored.backups.held_until,
            pages: stored.pages,
        }
    }

    /// Number of erased entries, named or not.
    #[must_use]
    pub fn count_erased(&self) -> u64 {
        let on_pages: u64 = self.pages.iter().map(|page| page.erased).sum();
        self.erased.len() as u64 + on_pages + self.private.erased
    }

    /// Number of revived entries, named or not.
    #[must_use]
    pub fn count_revived(&self) -> u64 {
        let on_pages: u64 = self.pages.iter().map(|page| page.revived).sum();
        self.revived.len() as u64 + on_pages + self.private.revived
    }

    /// Number of erased archives, named or not.
    #[must_use]
    pub fn count_archives(&self) -> u64 {
        let on_pages: u64 = self.pages.iter().map(|page| page.archives).sum();
        self.archives.len() as u64 + on_pages + self.private.archives
    }

    /// Number of entries and archives that the report itself names.
    pub(super) fn named(&self) -> u64 {
        (self.erased.len() + self.revived.len() + self.archives.len()) as u64
    }

    /// Adds the names and counts of another report.
    pub(super) fn append(&mut self, more: &ErasureReport) {
        self.erased.extend_from_slice(&more.erased);
        self.revived.extend_from_slice(&more.revived);
        self.archives.extend_from_slice(&more.archives);
        self.private.add(more.private);
        let commitments = self.commitments.unwrap_or(0) + more.commitments.unwrap_or(0);
        self.commitments = Some(commitments);
    }

    /// Removes the names, which are on pages.
    pub(super) fn clear_names(&mut self) {
        self.erased.clear();
        self.revived.clear();
        self.archives.clear();
    }

    /// The same names, and none of what is only counted.
    pub(super) fn without_counts(self) -> ErasureReport {
        ErasureReport {
            private: PrivateCounts::default(),
            commitments: None,
            ..self
        }
    }

    /// The report without a signature, for dry runs.
    pub(super) fn unsigned(self) -> SignedReport {
        SignedReport {
            report: self,
            public_key: String::new(),
            signature: String::new(),
        }
    }

    /// Signs the report with the host's key.
    pub(super) fn sign(self, key: &HostKey) -> SignedReport {
        let pair = key_pair(key);
        let signature = STANDARD.encode(pair.sign(canonical(self.to_map()).as_bytes()).as_ref());
        SignedReport {
            report: self,
            public_key: STANDARD.encode(pair.public_key().as_ref()),
            signature,
        }
    }
}

/// The host's key pair for reports, derived from its secret.
fn key_pair(key: &HostKey) -> Ed25519KeyPair {
    let seed = key.derive("remembrancer erasure report v1");
    Ed25519KeyPair::from_seed_unchecked(&seed).expect("32 bytes are a seed")
}

impl SignedReport {
    /// The signed report as JSON, as it is stored and sent.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        let signature = (!self.signature.is_empty()).then(|| ReportSignature {
            algorithm: ALGORITHM.to_owned(),
            public_key: self.public_key.clone(),
            value: self.signature.clone(),
        });
        self.report.to_stored(signature).to_map()
    }

    /// Reads the JSON that `to_map` wrote.
    #[must_use]
    pub fn from_map(map: &Map<String, Value>) -> Option<SignedReport> {
        let mut stored = StoredReport::from_map(map)?;
        let signature = stored.signature.take().unwrap_or_default();
        Some(SignedReport {
            report: ErasureReport::from_stored(stored),
            public_key: signature.public_key,
            signature: signature.value,
        })
    }
}

/// The bytes that are signed: JSON with sorted keys and no spaces, the same wherever it is
/// serialised.
fn canonical(report: Map<String, Value>) -> String {
    fn sorted(value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut pairs: Vec<(String, Value)> = map
                    .into_iter()
                    .map(|(name, value)| (name, sorted(value)))
                    .collect();
                pairs.sort_by(|a, b| a.0.cmp(&b.0));
                Value::Object(pairs.into_iter().collect())
            }
            Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
            other => other,
        }
    }
    sorted(Value::Object(report)).to_string()
}

/// SHA-256 of a page of a report as canonical JSON, in hex.
pub(super) fn sha256(page: Map<String, Value>) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, canonical(page).as_bytes()).as_ref())
}

/// The public key that a report contains, in base64.
#[must_use]
pub fn embedded_public_key(report: &Map<String, Value>) -> Option<&str> {
    report.get("signature")?.get("publicKey")?.as_str()
}

/// Verifies that the holder of `public_key` (base64) signed the report exactly as it is. The
/// signature covers all fields except itself and `changed`, which the answer to a forget request
/// adds.
#[must_use]
pub fn verify_report(report: &Map<String, Value>, public_key: &str) -> bool {
    let signature = report
        .get("signature")
        .and_then(|signature| signature.get("value"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let (Ok(key), Ok(signature)) = (STANDARD.decode(public_key), STANDARD.decode(signature)) else {
        return false;
    };
    let mut signed = report.clone();
    signed.remove("signature");
    signed.remove("changed");
    sabotage!(
        "any-signature-does-for-a-report",
        UnparsedPublicKey::new(&ED25519, key)
            .verify(canonical(signed).as_bytes(), &signature)
            .is_ok(),
        true
    )
}

impl Engine {
    /// The public key that reports of this host are verified with, in base64.
    #[must_use]
    pub fn report_public_key(&self) -> String {
        STANDARD.encode(key_pair(&self.parts.host_key).public_key().as_ref())
    }

    /// Fills in what every report of an erasure states beside its names and counts.
    pub(super) async fn fill_in_report(
        &self,
        tenant: &TenantId,
        subject: &Subject,
        id: &str,
        report: ErasureReport,
    ) -> Result<ErasureReport, EngineError> {
        let now = self.now_for(tenant).await?;
        let until = self
            .parts
            .backups_kept_ms
            .map(|backup_ms| now.plus_ms(backup_ms).rfc3339());
        Ok(ErasureReport {
            id: id.to_owned(),
            tenant: tenant.as_str().to_owned(),
            at: now.rfc3339(),
            subject: subject.short_hex(),
            commitments: Some(report.commitments.unwrap_or(0)),
            backups_until: until,
            ..report
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::redact::Redactor;
    use remem_core::{Admission, Policy, ShapePolicy, Timestamp};
    use serde_json::json;

    fn report() -> ErasureReport {
        ErasureReport {
            private: PrivateCounts {
                erased: 2,
                revived: 1,
                archives: 1,
            },
            id: "era_1".into(),
            tenant: "t".into(),
            at: "2026-01-01T00:00:00.000Z".into(),
            subject: "00ff00ff".into(),
            erased: vec![ErasedEntry {
                memory_ref: "m".into(),
                id: "e".into(),
                content_hash: "aa".into(),
            }],
            revived: vec![("m".into(), "f".into())],
            archives: vec!["ab".into()],
            pages: Vec::new(),
            commitments: Some(2),
            backups_until: None,
        }
    }

    #[test]
    fn a_report_without_a_commitment_count_still_verifies() {
        let signed = ErasureReport {
            commitments: None,
            private: PrivateCounts::default(),
            ..report()
        }
        .sign(&HostKey::new([7; 32]));
        let map = signed.to_map();
        assert_eq!(
            map["counts"],
            json!({"erased": 1, "revived": 1, "archives": 1}),
            "word for word as it was"
        );
        let read = SignedReport::from_map(&map).unwrap();
        assert!(
            read.report.commitments.is_none() && verify_report(&read.to_map(), &signed.public_key)
        );
        let mut counted = map;
        counted["counts"]["commitments"] = json!(0);
        assert!(
            !verify_report(&counted, &signed.public_key),
            "nobody adds a count to it"
        );
    }

    #[test]
    fn a_signature_verifies_only_the_report_that_was_signed() {
        let signed = report().sign(&HostKey::new([7; 32]));
        let map = signed.to_map();
        assert_eq!(SignedReport::from_map(&map).unwrap(), signed);
        assert_eq!(embedded_public_key(&map), Some(signed.public_key.as_str()));
        assert!(verify_report(&map, &signed.public_key));
        let other = report().sign(&HostKey::new([8; 32]));
        assert!(!verify_report(&map, &other.public_key));
        let with = |name: &str, value: Value| {
            let mut map = map.clone();
            map.insert(name.to_owned(), value);
            map
        };
        for (name, value) in [
            ("erased", json!([])),
            ("counts", json!({"erased": 0, "revived": 1, "archives": 1})),
            ("backups", json!({"heldUntil": "2027-01-01T00:00:00.000Z"})),
            ("kept", json!("")),
            ("more", json!(1)),
        ] {
            assert!(
                !verify_report(&with(name, value), &signed.public_key),
                "{name}"
            );
        }
        assert!(
            verify_report(&with("changed", json!(true)), &signed.public_key),
            "what stands beside the report is not part of it"
        );
        assert!(!verify_report(&map, "not base64"));
        assert!(!verify_report(
            &report().unsigned().to_map(),
            &signed.public_key
        ));
    }

    #[test]
    fn a_report_on_pages_is_read_back_and_its_pages_are_signed() {
        let page = ReportPage::of(&report(), sha256(report().to_map()));
        let signed = ErasureReport {
            erased: Vec::new(),
            revived: Vec::new(),
            archives: Vec::new(),
            pages: vec![page.clone(), page],
            ..report()
        }
        .sign(&HostKey::new([7; 32]));
        let mut map = signed.to_map();
        assert_eq!(
            map["counts"],
            json!({"erased": 4, "revived": 3, "archives": 3, "commitments": 2})
        );
        assert_eq!(SignedReport::from_map(&map).unwrap(), signed);
        assert!(verify_report(&map, &signed.public_key));
        map["pages"][1]["sha256"] = json!("00");
        assert!(!verify_report(&map, &signed.public_key));
    }

    #[test]
    fn canonical_json_sorts_keys() {
        let map = json!({"b": [{"d": 1, "c": "é\n"}], "a": null})
            .as_object()
            .unwrap()
            .clone();
        assert_eq!(canonical(map), r#"{"a":null,"b":[{"c":"é\n","d":1}]}"#);
    }

    #[test]
    fn redaction_does_not_alter_signed_reports() {
        let redactor = Redactor::empty();
        let policy = Policy {
            shapes: ShapePolicy::Redact,
            ..Policy::default()
        };
        let admission = Admission {
            policy: &policy,
            redactor: &redactor,
            redaction_fingerprint: 1,
            now: Timestamp(0),
        };
        for seed in 0..=255 {
            let key = HostKey::new([seed; 32]);
            let digest = blake3::hash(&[seed]).to_hex().to_string();
            let mut report = report();
            report.erased[0].content_hash.clone_from(&digest);
            report.archives = vec![digest];
            let map = report.sign(&key).to_map();
            assert_eq!(admission.redact_record(map.clone()).map(), &map);
        }
    }
}
