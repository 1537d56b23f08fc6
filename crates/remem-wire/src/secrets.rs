//! Wire types of vault secrets. A value goes in and never comes out: no answer has a field for one.

use crate::time::Instant;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Request to set or rotate a vault secret. The type has no `Debug`, so that no log can print the
/// value.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretPut {
    /// Value of the secret, 8 to 8,192 characters.
    #[schema(value_type = String)]
    pub value: Zeroizing<String>,
    /// Scope of the secret: `tenant` (the default) or `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// Description of a vault secret, without its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretInfo {
    /// Name of the secret.
    pub name: String,
    /// Scope of the secret: `tenant` or `user`.
    pub scope: String,
    /// Time the secret was created (RFC 3339).
    pub created_at: Instant,
    /// Time of the latest rotation (RFC 3339); absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_at: Option<Instant>,
    /// Number of values that the secret has had.
    pub versions: u64,
}

/// A page of vault secrets: the tenant's, then the caller's own, each by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretList {
    /// Secrets on this page.
    pub secrets: Vec<SecretInfo>,
    /// Value of `after` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// Query parameters of the list of vault secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SecretsQuery {
    /// Number of secrets per page: 100 if absent, the host's maximum (1,000 by default) if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only secrets after this one: the `nextAfter` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Principal whose own secrets are listed, instead of the caller's; needs `keys:manage` as
    /// well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Query parameters that select one of two secrets of the same name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SecretScopeQuery {
    /// Scope of the secret: `tenant` (the default) or `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Principal whose own secret is deleted, instead of the caller's; needs `keys:manage` as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}
