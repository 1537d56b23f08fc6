//! Workspace files on the wire, in the closed shapes of OpenWOP.

use crate::time::Instant;
use serde::{Deserialize, Serialize};

/// One version of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceFile {
    /// Its name.
    pub path: String,
    /// Its text, redacted.
    pub content: String,
    /// What kind of text it is.
    pub content_type: String,
    /// From 1.
    pub version: u64,
    /// Names this version; send it back as `If-Match`.
    pub etag: String,
    /// When it was written.
    pub updated_at: Instant,
}

/// A file in a list: everything but its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceFileInfo {
    /// Its name.
    pub path: String,
    /// What kind of text it is.
    pub content_type: String,
    /// The newest version.
    pub version: u64,
    /// Names that version.
    pub etag: String,
    /// When it was written.
    pub updated_at: Instant,
}

/// The tenant's files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceFileList {
    /// By path.
    pub files: Vec<WorkspaceFileInfo>,
}

/// What to write.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceFilePut {
    /// The text.
    pub content: String,
    /// What kind of text it is [text/markdown].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// Which files to list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkspaceListQuery {
    /// Only paths that begin with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// Which version to read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkspaceReadQuery {
    /// The newest if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}
