//! Tenants, keys and passes on the wire.

use crate::time::Instant;
use crate::workshop::SourceName;
use serde::{Deserialize, Serialize};

/// What a host of before ceilings lets every key vouch for.
fn everything() -> SourceName {
    SourceName::Operator
}

/// What a new key should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyCreate {
    /// The tenant it opens; the caller's own if absent. Created if it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What a person calls it.
    #[serde(default)]
    pub label: String,
    /// What it allows: memory:read, runs:create, … An unknown one is refused with the list of all.
    pub scopes: Vec<String>,
    /// From when it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// Who acts with it; the key's own id if absent. Several keys may be one principal's, so that
    /// one can replace another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The most that it may vouch for as the source of what it writes; model if absent, and never
    /// more than the caller's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<SourceName>,
}

/// What is to change about a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyChange {
    /// The most that it may vouch for; never more than the caller's own.
    pub trust: SourceName,
}

/// A key that was just made: the only time its text is shown.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyCreated {
    /// The key itself.
    pub key: String,
    /// What is kept of it.
    #[serde(flatten)]
    pub info: KeyInfo,
}

/// A key, without the key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyInfo {
    /// Its public name.
    pub id: String,
    /// Who acts with it.
    pub principal: String,
    /// The tenant it opens.
    pub tenant: String,
    /// What a person calls it.
    pub label: String,
    /// What it allows.
    pub scopes: Vec<String>,
    /// The most that it may vouch for as the source of what it writes.
    #[serde(default = "everything")]
    pub trust: SourceName,
    /// Nobody said what it may vouch for, so it may for everything: a key from before keys had such
    /// a ceiling, or a host's first one. Over MCP it may for what a model may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trust_unset: bool,
    /// When it was made.
    pub created_at: Instant,
    /// From when it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Instant>,
}

/// Who a caller is, as its key or token proved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Whoami {
    /// The tenant whose memory it reaches, the only one.
    pub tenant: String,
    /// Who acts with it.
    pub principal: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// The most that it may vouch for as the source of what it writes.
    #[serde(default = "everything")]
    pub trust: SourceName,
    /// Nobody said what it may vouch for, so it may for everything: a key from before keys had such
    /// a ceiling, or a host's first one. Over MCP it may for what a model may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trust_unset: bool,
    /// The id of its key; a token has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// From when the key or the token is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
}

/// The keys of a tenant, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct KeyList {
    /// The keys.
    pub keys: Vec<KeyInfo>,
}

/// Which tenant is meant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TenantQuery {
    /// The caller's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// A tenant to create or change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantPut {
    /// Its name.
    pub id: String,
    /// What happens to text shaped like a secret: redact (the default), flag or off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shapes: Option<String>,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantInfo {
    /// Its name.
    pub id: String,
    /// When it was created.
    pub created_at: Instant,
    /// What happens to text shaped like a secret.
    pub shapes: String,
}

/// All tenants by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TenantList {
    /// The tenants.
    pub tenants: Vec<TenantInfo>,
}
