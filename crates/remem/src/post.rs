//! Posts to webhooks: the only place where the host connects to addresses that callers chose.
//!
//! A name is looked up once, here; every address behind it is checked, and the connection goes to
//! one of exactly those addresses. No proxy, no redirect and no second lookup can lead elsewhere.

use async_trait::async_trait;
use remem_core::sabotage;
use remem_core::webhook::{check_url, is_public, literal_address};
use remem_engine::ports::{WebhookError, WebhookSender};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The port used when asking the system for the route to an address. Any port will do, because
/// nothing is sent.
const DISCARD_PORT: u16 = 9;

/// One of the addresses behind a name is not public, so the host does not connect to it.
#[derive(Debug, thiserror::Error)]
#[error("the name leads to an address that is not public")]
struct NotPublic;

/// A resolver that refuses names with an address of the host's own network or machine.
struct PublicResolver {
    allow_private: bool,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let addresses = require_public(found, allow_private, is_own_address)?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Returns all addresses of a name if every one is public, else none: a name with one private
/// address is not public. A public address of this machine itself counts as private.
fn require_public(
    found: Vec<SocketAddr>,
    allow_private: bool,
    is_own: impl Fn(IpAddr) -> bool,
) -> Result<Vec<SocketAddr>, NotPublic> {
    let is_outside = |address: &SocketAddr| {
        let own = sabotage!("a-machine-posts-to-itself", is_own(address.ip()), false);
        is_public(address.ip()) && !own
    };
    if allow_private
        || sabotage!(
            "one-public-address-is-enough",
            found.iter().all(is_outside),
            found.iter().any(is_outside)
        )
    {
        Ok(found)
    } else {
        Err(NotPublic)
    }
}

/// Returns whether an address is one of this machine's own. Asks the system and sends nothing.
fn is_own_address(ip: IpAddr) -> bool {
    let (any, elsewhere): (IpAddr, IpAddr) = match ip {
        IpAddr::V4(_) => (
            Ipv4Addr::UNSPECIFIED.into(),
            Ipv4Addr::new(192, 0, 2, 1).into(),
        ),
        IpAddr::V6(_) => (
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        ),
    };
    let can_bind = |ip: IpAddr| UdpSocket::bind((ip, 0)).is_ok();
    // A system can be configured to let programs bind any address. There the route decides: a
    // machine connects to an address of its own from that very address.
    if can_bind(ip) && !can_bind(elsewhere) {
        return true;
    }
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((ip, DISCARD_PORT))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == ip)
}

/// The client that posts to webhooks.
pub struct WebhookClient {
    allow_private: bool,
    /// Built on first use: most commands never post, and reading the machine's certificates takes a
    /// while. `None` if it cannot be built.
    client: OnceLock<Option<reqwest::Client>>,
}

impl WebhookClient {
    /// Returns a client. `allow_private` permits plain HTTP and addresses of the host's own
    /// network.
    #[must_use]
    pub fn new(allow_private: bool) -> WebhookClient {
        WebhookClient {
            allow_private,
            client: OnceLock::new(),
        }
    }

    fn client(&self) -> Result<&reqwest::Client, WebhookError> {
        let client = self.client.get_or_init(|| {
            // Fails only if a provider is installed already, which serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let built = sabotage!("webhooks-follow-redirects", reqwest::Client::builder()
                .dns_resolver(Arc::new(PublicResolver { allow_private: self.allow_private }))
                .redirect(reqwest::redirect::Policy::none()), reqwest::Client::builder()
                .dns_resolver(Arc::new(PublicResolver { allow_private: self.allow_private })))
                .no_proxy()
                .referer(false)
                .https_only(!self.allow_private)
                .connect_timeout(Duration::from_secs(5))
                .timeout(Duration::from_secs(5))
                .pool_idle_timeout(Duration::from_secs(10))
                .build();
            built
                .inspect_err(|_| tracing::error!("webhooks cannot be sent: no HTTPS client, does this machine have root certificates?"))
                .ok()
        });
        client.as_ref().ok_or(WebhookError::Unreachable)
    }
}

#[async_trait]
impl WebhookSender for WebhookClient {
    async fn post(
        &self,
        url: &str,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    ) -> Result<u16, WebhookError> {
        // The rules may have become stricter since the webhook was registered, and the resolver
        // never sees literal addresses.
        check_url(url, self.allow_private).map_err(|_| WebhookError::Refused)?;
        if let Some(ip) = literal_address(url) {
            require_public(
                vec![(ip, DISCARD_PORT).into()],
                self.allow_private,
                is_own_address,
            )
            .map_err(|NotPublic| WebhookError::Refused)?;
        }
        let request = headers
            .into_iter()
            .fold(self.client()?.post(url), |request, (name, value)| {
                request.header(name, value)
            });
        // The body of the receiver's answer is not read: only its status counts.
        request
            .body(body)
            .send()
            .await
            .map(|response| response.status().as_u16())
            .map_err(|error| error_class(&error))
    }
}

/// Returns the class of a failure, which is all that is logged and stored of it.
fn error_class(error: &reqwest::Error) -> WebhookError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if current.is::<NotPublic>() {
            return WebhookError::Refused;
        }
        cause = current.source();
    }
    if error.is_timeout() {
        WebhookError::Timeout
    } else {
        WebhookError::Unreachable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Answers one request with `answer` and returns the request.
    async fn receive(listener: TcpListener, answer: &str) -> String {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"the body") {
            assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0);
        }
        socket.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(read).unwrap()
    }

    #[tokio::test]
    async fn private_addresses_are_reached_only_when_allowed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let strict = WebhookClient::new(false);
        for inside in [
            "http://127.0.0.1",
            "https://127.0.0.1",
            "https://localhost",
            "https://[::1]",
            "https://[::ffff:7f00:1]",
        ] {
            let answer = strict
                .post(&format!("{inside}:{port}/"), vec![], b"the body".to_vec())
                .await;
            assert_eq!(answer, Err(WebhookError::Refused), "{inside}");
        }
        let open = WebhookClient::new(true);
        let url = format!("http://localhost:{port}/hook?a=b");
        let elsewhere = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let (answer, request) = tokio::join!(
            open.post(&url, vec![("X-Test", "v".to_owned())], b"the body".to_vec()),
            receive(listener, elsewhere)
        );
        assert_eq!(
            answer,
            Ok(302),
            "a redirect is an answer, and is not followed"
        );
        assert!(
            request.starts_with("POST /hook?a=b HTTP/1.1\r\n")
                && request.to_lowercase().contains("x-test: v\r\n"),
            "{request}"
        );
        assert_eq!(
            open.post(&url, vec![], vec![]).await,
            Err(WebhookError::Unreachable),
            "nobody listens any more"
        );
    }

    /// A machine can have a public address of its own. There, the system's routes answer as they do
    /// here for the machine's loopback and private addresses.
    #[test]
    fn public_addresses_of_the_host_itself_count_as_private() {
        let outside: SocketAddr = "8.8.8.8:0".parse().unwrap();
        let own: SocketAddr = "52.9.9.9:0".parse().unwrap();
        let is_here = |ip: IpAddr| ip == own.ip();
        assert!(require_public(vec![own], false, is_here).is_err());
        assert!(require_public(vec![outside, own], false, is_here).is_err());
        assert_eq!(
            require_public(vec![outside], false, is_here).unwrap(),
            [outside]
        );
        assert_eq!(require_public(vec![own], true, is_here).unwrap(), [own]);
        for here in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert!(is_own_address(here.parse().unwrap()), "{here}");
        }
        for away in ["8.8.8.8", "192.0.2.1", "2001:4860:4860::8888"] {
            assert!(!is_own_address(away.parse().unwrap()), "{away}");
        }
    }

    /// A name that is accepted at registration may lead to a private address when it is looked up,
    /// so each address is checked.
    #[tokio::test]
    async fn every_resolved_address_of_a_name_is_checked() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let outside = address("8.8.8.8:0");
        let inside = address("10.0.0.1:0");
        let elsewhere = |_: IpAddr| false;
        assert_eq!(
            require_public(vec![outside], false, elsewhere).unwrap(),
            [outside]
        );
        assert!(require_public(vec![outside, inside], false, elsewhere).is_err());
        assert_eq!(
            require_public(vec![inside], true, elsewhere).unwrap(),
            [inside]
        );
        // Through the client: the resolver refuses, and the caller receives the reason.
        let strict = WebhookClient::new(false);
        let refused = strict
            .client()
            .unwrap()
            .post("https://localhost:1/")
            .send()
            .await
            .unwrap_err();
        assert_eq!(error_class(&refused), WebhookError::Refused);
    }
}
