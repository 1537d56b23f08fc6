//! The permissions of a key. The API and the CLI call them scopes, as OpenWOP does; in the code
//! `Scope` is (tenant, memoryRef), so the word here is permission.

use std::{fmt, str::FromStr};

/// One right of a key inside its tenant (`host:admin` reaches every tenant's administration, never
/// its content).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Get, list and search entries; read stats and events.
    MemoryRead,
    /// Put and delete entries.
    MemoryWrite,
    /// Note that an action rests on an entry, which protects the entry's text from then on.
    MemoryLink,
    /// Import, export, passes, metrics and the ledger of model calls of the tenant.
    MemoryAdmin,
    /// Create, list and revoke the tenant's own keys.
    KeysManage,
    /// Create tenants and their first keys.
    HostAdmin,
    WorkspaceRead,
    /// Write and delete workspace files.
    WorkspaceWrite,
    /// Start and fork runs.
    RunsCreate,
    /// Read runs, their events and workflow definitions.
    RunsRead,
    RunsCancel,
    /// Install and remove agents and workflow definitions.
    ManifestWrite,
    /// List the installed agents.
    ManifestRead,
    /// Set, list, rotate and delete secrets of the vault.
    SecretsManage,
    /// Register and remove webhooks.
    WebhooksManage,
    /// Apply reviewed proposals, and approve them where that takes more than one.
    ProposalsApply,
    /// List proposals and the objects that were installed from them.
    ProposalsRead,
    /// Submit, revise, reject and archive proposals.
    ProposalsWrite,
    /// Override the quorum of a gate, where the host allows it.
    ProposalsOverride,
}

impl Permission {
    /// All permissions; the bootstrap key has them.
    pub const ALL: [Permission; 19] = [
        Permission::MemoryRead,
        Permission::MemoryWrite,
        Permission::MemoryLink,
        Permission::MemoryAdmin,
        Permission::KeysManage,
        Permission::HostAdmin,
        Permission::WorkspaceRead,
        Permission::WorkspaceWrite,
        Permission::RunsCreate,
        Permission::RunsRead,
        Permission::RunsCancel,
        Permission::ManifestWrite,
        Permission::ManifestRead,
        Permission::SecretsManage,
        Permission::WebhooksManage,
        Permission::ProposalsApply,
        Permission::ProposalsRead,
        Permission::ProposalsWrite,
        Permission::ProposalsOverride,
    ];

    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Permission::MemoryRead => "memory:read",
            Permission::MemoryWrite => "memory:write",
            Permission::MemoryLink => "memory:link",
            Permission::MemoryAdmin => "memory:admin",
            Permission::KeysManage => "keys:manage",
            Permission::HostAdmin => "host:admin",
            Permission::WorkspaceRead => "workspace:read",
            Permission::WorkspaceWrite => "workspace:write",
            Permission::RunsCreate => "runs:create",
            Permission::RunsRead => "runs:read",
            Permission::RunsCancel => "runs:cancel",
            Permission::ManifestWrite => "manifest:write",
            Permission::ManifestRead => "manifest:read",
            Permission::SecretsManage => "secrets:manage",
            Permission::WebhooksManage => "webhooks:manage",
            Permission::ProposalsApply => "proposals:apply",
            Permission::ProposalsRead => "proposals:read",
            Permission::ProposalsWrite => "proposals:write",
            Permission::ProposalsOverride => "proposals:override",
        }
    }
}

/// Roles: names for sets of permissions. A key has a role if it has all of its permissions, however
/// they were granted.
pub const ROLES: [(&str, &[Permission]); 5] = [
    (
        "reader",
        &[
            Permission::MemoryRead,
            Permission::WorkspaceRead,
            Permission::RunsRead,
            Permission::ManifestRead,
            Permission::ProposalsRead,
        ],
    ),
    (
        "writer",
        &[
            Permission::MemoryRead,
            Permission::WorkspaceRead,
            Permission::RunsRead,
            Permission::ManifestRead,
            Permission::ProposalsRead,
            Permission::MemoryWrite,
            Permission::WorkspaceWrite,
            Permission::RunsCreate,
            Permission::RunsCancel,
            Permission::ProposalsWrite,
        ],
    ),
    (
        "reviewer",
        &[
            Permission::RunsRead,
            Permission::ManifestRead,
            Permission::ProposalsRead,
            Permission::ProposalsWrite,
            Permission::ProposalsApply,
        ],
    ),
    (
        "operator",
        &[
            Permission::MemoryAdmin,
            Permission::KeysManage,
            Permission::RunsRead,
            Permission::RunsCancel,
            Permission::ManifestRead,
            Permission::ManifestWrite,
            Permission::SecretsManage,
            Permission::WebhooksManage,
            Permission::ProposalsRead,
        ],
    ),
    ("admin", &Permission::ALL),
];

/// The permissions of a role; `None` for an unknown role.
#[must_use]
pub fn role_permissions(name: &str) -> Option<&'static [Permission]> {
    ROLES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, permissions)| *permissions)
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for a text that is not the name of a permission.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope; known scopes are {}", Permission::ALL.map(Permission::as_str).join(", "))]
pub struct UnknownPermission;

impl FromStr for Permission {
    type Err = UnknownPermission;
    fn from_str(text: &str) -> Result<Permission, UnknownPermission> {
        Permission::ALL
            .into_iter()
            .find(|p| p.as_str() == text)
            .ok_or(UnknownPermission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_lists_distinct_permissions() {
        for (name, permissions) in ROLES {
            assert!(
                !permissions.is_empty() && role_permissions(name) == Some(permissions),
                "{name}"
            );
            let mut once = permissions.to_vec();
            once.sort_unstable();
            once.dedup();
            assert_eq!(
                once.len(),
                permissions.len(),
                "{name} names a permission twice"
            );
        }
        assert_eq!(role_permissions("Admin"), None);
        assert_eq!(role_permissions(""), None);
    }

    #[test]
    fn the_unknown_permission_error_lists_every_permission() {
        let text = UnknownPermission.to_string();
        for p in Permission::ALL {
            assert!(text.contains(p.as_str()), "{p}");
            assert_eq!(p.as_str().parse(), Ok(p));
        }
    }
}
