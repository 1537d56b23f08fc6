//! Secrets of the vault on the wire. A value goes in and never comes out: no answer has a place for
//! one.

use crate::time::Instant;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// A secret to set, or another value for one. Has no `Debug`: nothing may print it.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretPut {
    /// The value, 8 to 8,192 characters.
    #[schema(value_type = String)]
    pub value: Zeroizing<String>,
    /// For whom it is: tenant (the default) or user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// What may be known of a secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretInfo {
    /// Its name.
    pub name: String,
    /// For whom it is: tenant or user.
    pub scope: String,
    /// When it was set.
    pub created_at: Instant,
    /// When it last got another value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_at: Option<Instant>,
    /// How many values it has had.
    pub versions: u64,
}

/// The tenant's secrets, then the caller's own, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretList {
    /// The secrets.
    pub secrets: Vec<SecretInfo>,
    /// Set if there are more: pass it as `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// Which secrets to list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SecretsQuery {
    /// How many at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `nextAfter` of an earlier page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The key whose own secrets are meant, if not the one in use; needs keys:manage as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Which of two secrets of one name is meant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SecretScopeQuery {
    /// tenant (the default) or user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The key whose own secrets are meant, if not the one in use; needs keys:manage as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}
