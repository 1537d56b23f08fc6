//! Wire types of tenants and API keys.

use crate::time::Instant;
use crate::workshop::SourceName;
use serde::{Deserialize, Serialize};

/// Default of a missing `trust` field: keys of hosts without trust ceilings may vouch for every
/// source.
fn any_source() -> SourceName {
    SourceName::Operator
}

/// Request to create an API key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyCreate {
    /// Name of the tenant that the key belongs to; the caller's own tenant if absent. The tenant is
    /// created if it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Label for people, at most 100 characters; empty if absent.
    #[serde(default)]
    pub label: String,
    /// Scopes that the key grants, such as `memory:read` or `runs:create`. An unknown scope is
    /// refused with the list of all scopes.
    pub scopes: Vec<String>,
    /// Time from which the key is refused (RFC 3339); absent for a key that does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// User that the key acts as (1 to 128 letters, digits and `_.:-`); the key's own id if absent.
    /// Several keys may share one principal, so that one can replace another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Highest source that the key may vouch for in what it writes; `model` if absent, and never
    /// above that of the caller's own key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<SourceName>,
}

/// Change of an existing key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyChange {
    /// Highest source that the key may vouch for; never above that of the caller's own key.
    pub trust: SourceName,
}

/// A newly created key with its text. The text is shown in this answer only.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyCreated {
    /// Text of the key, to be sent as a bearer token.
    pub key: String,
    /// Description of the key, as lists show it.
    #[serde(flatten)]
    pub info: KeyInfo,
}

/// Description of an API key, without its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyInfo {
    /// Public id of the key, such as `key_01a1debaad7fd2c0a1`.
    pub id: String,
    /// User that the key acts as.
    pub principal: String,
    /// Name of the tenant that the key belongs to.
    pub tenant: String,
    /// Label for people; may be empty.
    pub label: String,
    /// Scopes that the key grants.
    pub scopes: Vec<String>,
    /// Highest source that the key may vouch for in what it writes.
    #[serde(default = "any_source")]
    pub trust: SourceName,
    /// True if no ceiling was ever set for the key, so that it may vouch for every source: a key
    /// made before ceilings existed, or the first key of a host. Over MCP such a key vouches for
    /// `model` at most. Absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trust_unset: bool,
    /// Time the key was created (RFC 3339).
    pub created_at: Instant,
    /// Time from which the key is refused (RFC 3339); absent if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// Time the key was revoked (RFC 3339); absent while it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Instant>,
}

/// Identity of the caller, as its key or token proved it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Whoami {
    /// Name of the tenant, the only one whose memory the caller reaches.
    pub tenant: String,
    /// User that the caller acts as.
    pub principal: String,
    /// Scopes that the key or token grants.
    pub scopes: Vec<String>,
    /// Highest source that the caller may vouch for in what it writes.
    #[serde(default = "any_source")]
    pub trust: SourceName,
    /// True if no ceiling was ever set for the key, so that it may vouch for every source: a key
    /// made before ceilings existed, or the first key of a host. Over MCP such a key vouches for
    /// `model` at most. Absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trust_unset: bool,
    /// Id of the caller's key; absent if the caller came with a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// Time from which the key or token is refused (RFC 3339); absent if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
}

/// The keys of a tenant, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct KeyList {
    /// Keys, revoked ones included, oldest first.
    pub keys: Vec<KeyInfo>,
}

/// Query parameter that selects a tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TenantQuery {
    /// Name of the tenant; the caller's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// A tenant to create or change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantPut {
    /// Name of the tenant.
    pub id: String,
    /// Treatment of text that is shaped like a secret: `redact` (the default), `flag` or `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shapes: Option<String>,
}

/// Description of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantInfo {
    /// Name of the tenant.
    pub id: String,
    /// Time the tenant was created (RFC 3339).
    pub created_at: Instant,
    /// Treatment of text that is shaped like a secret: `redact`, `flag` or `off`.
    pub shapes: String,
}

/// All tenants of the host, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TenantList {
    /// Tenants, ordered by name.
    pub tenants: Vec<TenantInfo>,
}
