//! Isolation: no answer depends on what another tenant or another user keeps.

mod tenants;
mod users;
