//! The record of a secret: its values, encrypted and bound to their tenant, key and field. Access
//! is decided elsewhere.

use super::VaultKey;
use crate::error::EngineError;
use crate::seal;
use remem_core::record::or_default;
use remem_core::redact::SecretValue;
use remem_core::sabotage;
use remem_core::{
    Admission, Policy, Record, RecordBody, RecordKind, Redactor, StoredRecord, TenantId, Timestamp,
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

const VALUE: &str = "value";
const FORMER: &str = "former";

/// The readable fields of a secret's record, with its name. The sealed values are added to them.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecretFacts {
    #[serde(skip)]
    pub key: String,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub scope: Option<String>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub owner: Option<String>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub name: Option<String>,
    /// Absent if redaction of a value made of digits has replaced it.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub created_at: Option<Timestamp>,
}

impl StoredRecord for SecretFacts {
    const KIND: RecordKind = RecordKind::Secret;

    fn key(&self) -> String {
        self.key.clone()
    }

    fn complete(&mut self, record: &Record) {
        self.key.clone_from(&record.key);
    }
}

/// The associated data of a value: moved to another name, tenant or field, the ciphertext does not
/// decrypt.
fn associated_data(tenant: &TenantId, key: &str, field: &str) -> Vec<u8> {
    seal::associated_data([
        tenant.as_str(),
        sabotage!("ciphertext-opens-anywhere", key, ""),
        field,
    ])
}

/// The body of a secret's record: its readable fields, and its values encrypted.
pub(super) fn seal_body(
    vault: &VaultKey,
    tenant: &TenantId,
    key: &str,
    facts: &SecretFacts,
    value: &SecretValue,
    former: &[SecretValue],
) -> RecordBody {
    let policy = Policy::default();
    let redactor = Redactor::new([value.clone()]);
    let body = Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 0,
        now: Timestamp(0),
    }
    .redact_stored(facts);
    let current =
        value.expose(|text| vault.seal(&associated_data(tenant, key, VALUE), text.as_bytes()));
    let former = vault.seal(&associated_data(tenant, key, FORMER), &pack(former));
    body.with_sealed(VALUE, &current)
        .with_sealed(FORMER, &former)
}

/// Serialises values, each after its length.
fn pack(values: &[SecretValue]) -> Zeroizing<Vec<u8>> {
    let size = values.iter().map(|value| 8 + value.expose(str::len)).sum();
    let mut bytes = Zeroizing::new(Vec::with_capacity(size));
    for value in values {
        value.expose(|text| {
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        });
    }
    bytes
}

/// Parses values that `pack` serialised.
fn unpack(name: &str, mut bytes: &[u8]) -> Option<Vec<SecretValue>> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_at_checked(8)?;
        let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
        let (text, rest) = rest.split_at_checked(length)?;
        values.push(SecretValue::new(name, std::str::from_utf8(text).ok()?));
        bytes = rest;
    }
    Some(values)
}

/// Decrypts the values of a secret, newest first.
pub(super) fn open_values(
    vault: &VaultKey,
    tenant: &TenantId,
    record: &Record,
) -> Result<Vec<SecretValue>, EngineError> {
    let name = record.key.rsplit('/').next().unwrap_or_default();
    let open = |field: &str| {
        vault.open(
            &associated_data(tenant, &record.key, field),
            &record.sealed(field)?,
        )
    };
    let values = || {
        let current = open(VALUE)?;
        let mut values = vec![SecretValue::new(name, std::str::from_utf8(&current).ok()?)];
        sabotage!(
            "earlier-values-are-forgotten",
            values.extend(unpack(name, &open(FORMER)?)?)
        );
        Some(values)
    };
    values().ok_or_else(|| {
        tracing::error!(%tenant, "a secret cannot be opened: this is not the vault key that sealed it, or it was changed");
        EngineError::VaultLocked
    })
}
