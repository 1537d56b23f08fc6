//! Wire types of workspace files, in the closed shapes of OpenWOP.

use crate::time::Instant;
use serde::{Deserialize, Serialize};

/// A version of a workspace file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceFile {
    /// Path of the file, unique within the tenant.
    pub path: String,
    /// Text of the file, with secrets redacted.
    pub content: String,
    /// Media type of the text.
    pub content_type: String,
    /// Number of the version, counted from 1.
    pub version: u64,
    /// Entity tag of the version, to be sent as `If-Match`.
    pub etag: String,
    /// Time the version was written (RFC 3339).
    pub updated_at: Instant,
}

/// Description of a workspace file, without its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceFileInfo {
    /// Path of the file, unique within the tenant.
    pub path: String,
    /// Media type of the text.
    pub content_type: String,
    /// Number of the newest version.
    pub version: u64,
    /// Entity tag of the newest version.
    pub etag: String,
    /// Time the newest version was written (RFC 3339).
    pub updated_at: Instant,
}

/// The workspace files of the tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceFileList {
    /// Files, ordered by path.
    pub files: Vec<WorkspaceFileInfo>,
}

/// Request to write a workspace file.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceFilePut {
    /// Text of the file, at most 256 KiB.
    pub content: String,
    /// Media type of the text, at most 100 characters; `text/markdown` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// Query parameter of the list of workspace files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkspaceListQuery {
    /// Only files whose path begins with this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// Query parameter of a read of a workspace file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkspaceReadQuery {
    /// Number of the version to read; the newest version if absent.
    #[serde(
        default,
        deserialize_with = "crate::number::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub version: Option<u64>,
}
