//! A recorder between a store and its server: logs the statements that are sent, and holds back
//! answers where a test asks what is sent without them.

#![allow(
    clippy::disallowed_methods,
    reason = "each connection is forwarded by tasks of its own"
)]

use remem_store_sql::PostgresStore;
use remem_store_sql::postgres::{PostgresOptions, PostgresTarget};
use remem_testkit::postgres::TestDatabase;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A statement that was run: its text, and its parameters as they were sent.
#[derive(Clone, Debug)]
pub(crate) struct SentStatement {
    pub connection: usize,
    pub sql: String,
    pub params: Vec<Vec<u8>>,
}

impl SentStatement {
    /// The tenant that a transaction acts as, if this statement begins one.
    pub fn tenant(&self) -> Option<String> {
        let (_, settings) = self.sql.split_once("; SET LOCAL app.tenant_id = E'")?;
        let (tenant, _) = settings.split_once('\'')?;
        Some(tenant.to_owned())
    }
}

/// All statements that were run, in the order of sending, and the means to hold back their answers.
#[derive(Clone, Default)]
pub(crate) struct StatementLog {
    statements: Arc<Mutex<Vec<SentStatement>>>,
    pooled: Arc<PooledTraffic>,
}

/// The requests and answers of the one connection for requests, where the store has no more.
struct PooledTraffic {
    requests: AtomicUsize,
    /// So many requests are answered; the answers to later ones wait.
    answered: watch::Sender<usize>,
}

impl Default for PooledTraffic {
    fn default() -> PooledTraffic {
        PooledTraffic {
            requests: AtomicUsize::new(0),
            answered: watch::Sender::new(usize::MAX),
        }
    }
}

impl StatementLog {
    fn push(&self, connection: usize, sql: String, params: Vec<Vec<u8>>) {
        self.statements.lock().unwrap().push(SentStatement {
            connection,
            sql,
            params,
        });
    }

    pub fn take(&self) -> Vec<SentStatement> {
        std::mem::take(&mut self.statements.lock().unwrap())
    }

    /// The statements since the last `take` that contain this text.
    pub fn with(&self, text: &str) -> Vec<SentStatement> {
        let statements = self.statements.lock().unwrap();
        let with_text = statements.iter().filter(|sent| sent.sql.contains(text));
        with_text.cloned().collect()
    }

    /// How many requests were sent on the pooled connection; each has one answer.
    pub fn requests(&self) -> usize {
        self.pooled.requests.load(Ordering::SeqCst)
    }

    /// Holds back the answers to all but the first so many requests of the pooled connection.
    pub fn answer_only(&self, requests: usize) {
        self.pooled.answered.send_replace(requests);
    }

    /// Fails unless every identity was set by the text that began its transaction, for this
    /// transaction alone, and no connection began one before the last one was committed.
    pub fn assert_no_identity_is_left_behind(&self) {
        let mut open = HashMap::<usize, bool>::new();
        let mut transactions = 0;
        for sent in self.take() {
            let is_open = open.entry(sent.connection).or_default();
            if sent.sql.starts_with("BEGIN") {
                assert!(!*is_open, "a transaction inside another: {}", sent.sql);
                *is_open = true;
                transactions += 1;
            } else {
                assert!(
                    !sent.sql.contains("app."),
                    "an identity in between: {}",
                    sent.sql
                );
                *is_open &= sent.sql != "COMMIT";
            }
            let settings = sent.sql.matches("SET LOCAL app.").count();
            assert_eq!(settings, sent.sql.matches("app.").count(), "{}", sent.sql);
            assert_eq!(
                settings,
                3 * usize::from(*is_open && sent.sql.starts_with("BEGIN"))
            );
        }
        assert!(transactions > 10, "the recorder saw {transactions}");
    }

    /// The only statement on the tenants' tables since the last call, with the statement that began
    /// its transaction.
    pub fn one(&self) -> (String, SentStatement) {
        let (begins, sent): (Vec<SentStatement>, Vec<SentStatement>) = self
            .take()
            .into_iter()
            .partition(|sent| sent.sql.starts_with("BEGIN"));
        let sent: Vec<SentStatement> = sent
            .into_iter()
            .filter(|sent| sent.sql.contains("remem."))
            .collect();
        assert_eq!(
            (begins.len(), sent.len()),
            (1, 1),
            "one call is one transaction of one statement: {sent:?}"
        );
        (
            begins.into_iter().next().unwrap().sql,
            sent.into_iter().next().unwrap(),
        )
    }

    /// The last of the transactions since the last call, each of one statement.
    pub fn last(&self) -> (String, SentStatement) {
        let sent: Vec<SentStatement> = self
            .take()
            .into_iter()
            .filter(|sent| sent.sql.starts_with("BEGIN") || sent.sql.contains("remem."))
            .collect();
        let begin = sent
            .iter()
            .rposition(|sent| sent.sql.starts_with("BEGIN"))
            .expect("a transaction");
        assert_eq!(sent.len(), begin + 2, "one statement: {sent:?}");
        (sent[begin].sql.clone(), sent[begin + 1].clone())
    }
}

/// A store whose connections all lead through a recorder.
pub(crate) async fn recorded(
    database: &TestDatabase,
    options: PostgresOptions,
) -> (PostgresStore, StatementLog) {
    let (login, place) = database.app_url.rsplit_once('@').unwrap();
    let (server, name) = place.split_once('/').unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let log = StatementLog::default();
    let url = format!(
        "{login}@{}/{name}?sslmode=disable",
        listener.local_addr().unwrap()
    );
    let server = server.to_owned();
    let kept = log.clone();
    tokio::spawn(async move {
        let mut count = 0;
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&server).await.unwrap();
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let (from, back) = client.into_split();
            let (answers, to) = server.into_split();
            let is_pooled = Arc::new(AtomicBool::new(false));
            let traffic = kept.pooled.clone();
            tokio::spawn(forward_answers(answers, back, is_pooled.clone(), traffic));
            tokio::spawn(record(from, to, (count, is_pooled), kept.clone()));
            count += 1;
        }
    });
    let store = PostgresStore::open(PostgresOptions {
        target: PostgresTarget::parse(&url).unwrap(),
        ..options
    })
    .await
    .unwrap();
    log.take(); // the start-up check
    (store, log)
}

/// Forwards one connection's requests, message by message, and records the statements.
async fn record(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    (connection, is_pooled): (usize, Arc<AtomicBool>),
    log: StatementLog,
) -> std::io::Result<()> {
    let mut prepared: HashMap<String, String> = HashMap::new();
    let mut started = false;
    // The start of the session is answered, too.
    let mut requests = 1;
    loop {
        // The first message has no kind.
        let kind = if started { from.read_u8().await? } else { 0 };
        let length = from.read_u32().await?;
        let mut body = vec![0; length as usize - 4];
        from.read_exact(&mut body).await?;
        let mut fields = MessageReader(&body);
        match kind {
            b'P' => {
                let name = fields.text();
                let sql = fields.text();
                prepared.insert(name, sql);
            }
            b'B' => {
                let _portal = fields.text();
                let name = fields.text();
                log.push(connection, prepared[&name].clone(), fields.params());
            }
            b'Q' => {
                let sql = fields.text();
                is_pooled.fetch_or(sql.starts_with("SET lock_timeout"), Ordering::SeqCst);
                log.push(connection, sql, Vec::new());
            }
            _ => {}
        }
        requests += usize::from([b'Q', b'S'].contains(&kind));
        if is_pooled.load(Ordering::SeqCst) {
            log.pooled.requests.store(requests, Ordering::SeqCst);
        }
        let head = [&[kind][usize::from(!started)..], &length.to_be_bytes()].concat();
        to.write_all(&[head, body].concat()).await?;
        started = true;
    }
}

/// Forwards one connection's answers, message by message; those of a pooled connection as far as
/// they may pass.
async fn forward_answers(
    mut answers: OwnedReadHalf,
    mut back: OwnedWriteHalf,
    is_pooled: Arc<AtomicBool>,
    traffic: Arc<PooledTraffic>,
) -> std::io::Result<()> {
    let mut may_pass = traffic.answered.subscribe();
    let mut answered = 0;
    loop {
        let kind = answers.read_u8().await?;
        let length = answers.read_u32().await?;
        let mut body = vec![0; length as usize - 4];
        answers.read_exact(&mut body).await?;
        if is_pooled.load(Ordering::SeqCst) {
            let _ = may_pass.wait_for(|count| answered < *count).await;
        }
        let head = [&[kind][..], &length.to_be_bytes()].concat();
        back.write_all(&[head, body].concat()).await?;
        // The server is ready for the next request.
        answered += usize::from(kind == b'Z');
    }
}

/// Reads the fields of a message.
struct MessageReader<'a>(&'a [u8]);

impl MessageReader<'_> {
    fn text(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap();
        let text = String::from_utf8(self.0[..end].to_vec()).unwrap();
        self.0 = &self.0[end + 1..];
        text
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes.to_vec()
    }

    fn number(&mut self, length: usize) -> i64 {
        self.bytes(length)
            .into_iter()
            .fold(0, |number, byte| number << 8 | i64::from(byte))
    }

    /// The parameters of a Bind message; NULL reads as empty.
    fn params(&mut self) -> Vec<Vec<u8>> {
        let formats = self.number(2);
        self.bytes(formats as usize * 2);
        let count = self.number(2);
        let mut value = || match self.number(4) {
            0xffff_ffff => Vec::new(),
            length => self.bytes(length as usize),
        };
        (0..count).map(|_| value()).collect()
    }
}
