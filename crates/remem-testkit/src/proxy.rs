//! A TCP proxy in front of a PostgreSQL server that holds, delays, refuses or changes connections
//! when a test orders it.

#![allow(
    clippy::disallowed_methods,
    reason = "each connection is forwarded by a task of its own"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::sleep;

/// The treatment of a new connection.
#[derive(Clone, Copy, PartialEq)]
pub enum ProxyMode {
    /// Passes all bytes on in both directions.
    Forward,
    /// Passes everything on after a while.
    Delay(Duration),
    /// Waits until the mode is `Forward`.
    Hold,
    /// Closes the connection at once, unanswered.
    Refuse,
    /// Passes everything on except the start-up parameter `options`, like a pooler that is
    /// configured to ignore it.
    DropOptions,
}

/// A running proxy, which ends with its test.
pub struct Proxy {
    /// The port that it listens on, on the loopback interface.
    pub port: u16,
    /// The treatment of connections from now on.
    pub mode: watch::Sender<ProxyMode>,
    accepted: watch::Sender<usize>,
    forwarding: Mutex<Vec<AbortHandle>>,
}

impl Proxy {
    /// Starts a proxy in front of the server of a database URL; returns it with a URL that leads
    /// through it.
    pub async fn in_front_of(url: &str) -> (Arc<Proxy>, String) {
        let (credentials, rest) = url.rsplit_once('@').unwrap();
        let (upstream, name) = rest.split_once('/').unwrap();
        let proxy = Proxy::start(upstream.to_owned()).await;
        let url = format!("{credentials}@127.0.0.1:{}/{name}", proxy.port);
        (proxy, url)
    }

    async fn start(upstream: String) -> Arc<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Proxy {
            port: listener.local_addr().unwrap().port(),
            mode: watch::Sender::new(ProxyMode::Forward),
            accepted: watch::Sender::new(0),
            forwarding: Mutex::default(),
        });
        let accepting = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                accepting.handle(client, upstream.clone());
            }
        });
        proxy
    }

    fn handle(&self, client: TcpStream, upstream: String) {
        let mode = *self.mode.borrow();
        let mut modes = self.mode.subscribe();
        let forward = async move {
            match mode {
                ProxyMode::Forward | ProxyMode::DropOptions => {}
                ProxyMode::Delay(time) => sleep(time).await,
                ProxyMode::Hold => drop(modes.wait_for(|m| *m == ProxyMode::Forward).await),
                ProxyMode::Refuse => return,
            }
            let mut client = client;
            let mut server = TcpStream::connect(upstream).await.unwrap();
            if mode == ProxyMode::DropOptions {
                forward_start(&mut client, &mut server).await;
            }
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        };
        let task = tokio::spawn(forward).abort_handle();
        if mode != ProxyMode::Hold {
            self.forwarding.lock().unwrap().push(task);
        }
        self.accepted.send_modify(|count| *count += 1);
    }

    /// Treats new connections like this from now on, and closes those that it forwards; held ones
    /// remain held.
    pub fn cut(&self, mode: ProxyMode) {
        self.mode.send_replace(mode);
        for task in self.forwarding.lock().unwrap().drain(..) {
            task.abort();
        }
    }

    /// Waits until so many connections were made, in any mode.
    pub async fn has_accepted(&self, count: usize) {
        let mut accepted = self.accepted.subscribe();
        accepted.wait_for(|so_far| *so_far >= count).await.unwrap();
    }
}

/// The number that a request for encryption has in place of a protocol version.
const SSL_REQUEST: u32 = 80_877_103;

/// Passes the start-up message on without its `options`. Encryption is declined, so that the
/// message can be read.
async fn forward_start(client: &mut TcpStream, server: &mut TcpStream) {
    loop {
        let length = client.read_u32().await.unwrap();
        let mut body = vec![0; length as usize - 4];
        client.read_exact(&mut body).await.unwrap();
        let (version, parameters) = body.split_at(4);
        if version == SSL_REQUEST.to_be_bytes() {
            client.write_all(b"N").await.unwrap();
            continue;
        }
        let mut message = version.to_vec();
        let fields: Vec<&[u8]> = parameters.split(|byte| *byte == 0).collect();
        for pair in fields.chunks(2).take_while(|pair| !pair[0].is_empty()) {
            if pair[0] != b"options" {
                message.extend([pair[0], b"\0", pair[1], b"\0"].concat());
            }
        }
        message.push(0);
        let length = u32::try_from(message.len() + 4).unwrap();
        server.write_u32(length).await.unwrap();
        server.write_all(&message).await.unwrap();
        return;
    }
}
