//! Turns a database URL into connections: parameters, encryption, the settings of every session,
//! the pools.
//!
//! Encryption: `sslmode=disable` none; `prefer` (the default) encrypts if the server offers it,
//! without looking at its certificate; `require`, `verify-ca` and `verify-full` demand a
//! certificate that the machine, or the file named by `sslrootcert`, vouches for.

use super::error::store_error;
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use remem_core::sabotage;
use remem_store::StoreError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The longest time to open a connection outside the pools (of the monitor, of the check before the
/// start, of `migrate`), handshake and password check included. As generous as the wait of a pass:
/// a server that is slow is not one that is gone.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time for the first packets of such a connection to be answered, unless the URL says
/// `connect_timeout`. The server's kernel answers them, however busy its processes are; silence
/// means that no server is there, and with a short limit the next attempt notices sooner when it is
/// back.
const TCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Settings of every session. The first two limit how long one session can block others: by a lock
/// that another one waits for, or by a transaction that its node forgot. `synchronous_commit` is
/// set so that a default of the server cannot weaken the durability that an acknowledgement
/// promises. `jit` is off because no statement here runs long enough to be worth compiling, even if
/// the planner's costs say so.
const SESSION_SETTINGS: &str = "SET lock_timeout = '3s'; SET idle_in_transaction_session_timeout = '5s'; SET synchronous_commit = on; SET TIME ZONE 'UTC'; SET jit = off; SET hnsw.iterative_scan = relaxed_order; SET hnsw.ef_search = 400";

/// The errors of a database URL. They never repeat it: it may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// The text is not a valid URL of PostgreSQL.
    #[error("the database URL is not valid: {0}")]
    Malformed(String),
    /// The file of `sslrootcert` cannot be read.
    #[error("the certificates of sslrootcert cannot be read")]
    Certificates,
    /// The TLS library refused the settings.
    #[error("encryption cannot be set up: {0}")]
    Tls(String),
}

/// The address, login and encryption of a database.
#[derive(Clone)]
pub struct PostgresTarget {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
    /// The role that a session switches to when it starts, if not that of its login.
    role: Option<String>,
}

impl PostgresTarget {
    /// Parses a database URL.
    pub fn parse(url: &str) -> Result<PostgresTarget, UrlError> {
        if !["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            return Err(UrlError::Malformed(
                "it must begin with postgres://".to_owned(),
            ));
        }
        let (plain, verify, ca) = split_parameters(url);
        let mut config: Config = plain
            .parse()
            .map_err(|e: tokio_postgres::Error| UrlError::Malformed(reason(&e)))?;
        if verify {
            config.ssl_mode(SslMode::Require);
        }
        config
            .application_name("remem")
            .keepalives_idle(Duration::from_secs(10));
        config.tcp_user_timeout(Duration::from_secs(10));
        let tls = encryption(
            verify || config.get_ssl_mode() == SslMode::Require,
            ca.as_deref(),
        )?;
        Ok(PostgresTarget {
            config,
            tls: MakeRustlsConnect::new(tls),
            role: None,
        })
    }

    /// The name of the database.
    #[must_use]
    pub fn database(&self) -> String {
        self.config
            .get_dbname()
            .or(self.config.get_user())
            .unwrap_or("postgres")
            .to_owned()
    }

    /// The same database with sessions that switch to another role, from the first statement on.
    #[must_use]
    pub fn as_role(&self, role: &str) -> PostgresTarget {
        let mut target = self.clone();
        let options = self
            .config
            .get_options()
            .map(|o| format!("{o} "))
            .unwrap_or_default();
        target.config.options(format!(
            "{options}-c role={}",
            role.replace('\\', "\\\\").replace(' ', "\\ ")
        ));
        target.role = Some(role.to_owned());
        target
    }

    /// The role that every session must have; `None` if the URL leaves the user to the environment.
    pub(super) fn user(&self) -> Option<&str> {
        self.role.as_deref().or(self.config.get_user())
    }

    /// A pool of up to `size` connections, in which no statement takes longer than `deadline`. How
    /// long a caller waits for a connection to be free or opened is decided in `connections`.
    pub(super) fn pool(&self, size: usize, deadline: Duration) -> Result<Pool, StoreError> {
        let manager = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let session: Arc<str> = format!(
            "{SESSION_SETTINGS}; SET statement_timeout = {}",
            deadline.as_millis()
        )
        .into();
        let user: Option<Arc<str>> = self.user().map(Into::into);
        let set_up = Hook::async_fn(move |client, _| {
            let session = session.clone();
            let user = user.clone();
            Box::pin(async move {
                client
                    .batch_execute(&session)
                    .await
                    .map_err(HookError::Backend)?;
                match has_role(client, user.as_deref()).await {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(HookError::message(WRONG_ROLE)),
                    Err(error) => Err(HookError::Backend(error)),
                }
            })
        });
        Pool::builder(Manager::from_config(
            self.config.clone(),
            self.tls.clone(),
            manager,
        ))
        .max_size(size.max(1))
        .runtime(Runtime::Tokio1)
        .post_create(set_up)
        .build()
        .map_err(|e| StoreError::Unavailable(Box::new(e)))
    }

    /// Opens a connection outside the pools, with the task that drives it.
    pub(super) async fn connect(&self) -> Result<(Client, Driver), StoreError> {
        let mut config = self.config.clone();
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(TCP_CONNECT_TIMEOUT);
        }
        tokio::time::timeout(CONNECT_TIMEOUT, config.connect(self.tls.clone()))
            .await
            .map_err(|_| super::error::unavailable(super::error::DatabaseError::Deadline))?
            .map_err(store_error)
    }
}

/// The error text for a session that has another role than it asked for.
pub(super) const WRONG_ROLE: &str = "a database session acts as another role than it asked for: \
     a connection pooler that drops start-up options stands between remem and PostgreSQL; \
     connect to PostgreSQL itself, or have the pooler keep `options`";

/// Whether a session has this role. A pooler that drops start-up options drops the role with them:
/// passes would then have the rights of requests, see no rows, and erase nothing.
pub(super) async fn has_role(
    client: &Client,
    user: Option<&str>,
) -> Result<bool, tokio_postgres::Error> {
    let Some(user) = user else {
        return Ok(true);
    };
    let row = client
        .query_one("SELECT current_user::text = $1", &[&user])
        .await?;
    let is_user: bool = row.try_get(0)?;
    Ok(sabotage!(
        "postgres-a-session-acts-as-any-role",
        is_user,
        true
    ))
}

/// The task that moves the bytes of one connection.
pub(super) type Driver = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// The driver's own message, which names the parameter that is wrong, never its value.
fn reason(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Removes the parameters that the driver does not know: `sslmode=verify-…` and `sslrootcert`.
/// Returns the rest of the URL, whether to verify, and the certificate file.
fn split_parameters(url: &str) -> (String, bool, Option<String>) {
    let Some((address, query)) = url.split_once('?') else {
        return (url.to_owned(), false, None);
    };
    let mut other_pairs = Vec::new();
    let mut verify = false;
    let mut ca = None;
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", "verify-ca" | "verify-full")) => verify = true,
            Some(("sslrootcert", file)) => {
                ca = Some(
                    file.replace("%2F", "/")
                        .replace("%2f", "/")
                        .replace("%20", " "),
                )
            }
            _ => other_pairs.push(pair),
        }
    }
    let separator = if other_pairs.is_empty() { "" } else { "?" };
    (
        format!("{address}{separator}{}", other_pairs.join("&")),
        verify,
        ca,
    )
}

fn encryption(verify: bool, ca: Option<&str>) -> Result<ClientConfig, UrlError> {
    let provider = Arc::new(ring::default_provider());
    let tls = |e: rustls::Error| UrlError::Tls(e.to_string());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(tls)?;
    if let Some(file) = ca {
        let mut roots = RootCertStore::empty();
        for certificate in
            CertificateDer::pem_file_iter(file).map_err(|_| UrlError::Certificates)?
        {
            roots
                .add(certificate.map_err(|_| UrlError::Certificates)?)
                .map_err(tls)?;
        }
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    if verify {
        return Ok(builder
            .with_platform_verifier()
            .map_err(tls)?
            .with_no_client_auth());
    }
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
        .with_no_client_auth())
}

/// Accepts any certificate. For `sslmode=prefer`, which also accepts no encryption at all: protects
/// only against passive listeners.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_parameters_unknown_to_the_driver_are_removed() {
        let (url, verify, ca) = split_parameters(
            "postgres://u@h/d?sslmode=verify-full&application_name=x&sslrootcert=%2Fca.pem",
        );
        assert_eq!(
            (url.as_str(), verify, ca.as_deref()),
            ("postgres://u@h/d?application_name=x", true, Some("/ca.pem"))
        );
        assert_eq!(
            split_parameters("postgres://u@h/d?sslmode=require").0,
            "postgres://u@h/d?sslmode=require"
        );
        assert_eq!(
            split_parameters("postgres://u@h/d?sslmode=verify-ca").0,
            "postgres://u@h/d"
        );
    }

    #[test]
    fn an_invalid_url_is_rejected_without_echoing_it() {
        for url in [
            "postgres://u:hunter2secret@h:notaport/d",
            "nonsense hunter2secret",
            "postgres://u:hunter2secret@h/d?nonsense=1",
        ] {
            let error = PostgresTarget::parse(url)
                .err()
                .expect("refused")
                .to_string();
            assert!(!error.contains("hunter2secret"), "{error}");
        }
        let error = PostgresTarget::parse("mysql://u@h/d")
            .err()
            .expect("refused")
            .to_string();
        assert!(error.contains("must begin with postgres://"), "{error}");
    }
}
