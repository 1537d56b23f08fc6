//! Closes connections whose client does not read: when no write makes progress for a while, the
//! connection fails and frees the answer that it holds in memory. May not read the bytes sent.

use remem_core::sabotage;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A connection whose writes fail once they have made no progress for `limit`.
pub(crate) struct WriteDeadline<S> {
    stream: S,
    limit: Duration,
    /// The time left to the pending write; `None` while no write is pending.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteDeadline<S> {
    pub fn new(stream: S, limit: Duration) -> WriteDeadline<S> {
        WriteDeadline {
            stream,
            limit,
            timer: None,
        }
    }

    /// Passes the result of a write on, or fails it if writes have been pending for the limit.
    fn with_deadline<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: Poll<Result<T>>,
    ) -> Poll<Result<T>> {
        if write.is_ready() {
            self.timer = None;
            return write;
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        let is_over = timer.as_mut().poll(cx).is_ready();
        if sabotage!("readers-that-do-not-read-stay", is_over, false) {
            return Poll::Ready(Err(Error::from(ErrorKind::TimedOut)));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let write = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.with_deadline(cx, write)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let this = self.get_mut();
        let write = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.with_deadline(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_stalled_reader_times_out_and_a_slow_one_does_not() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = WriteDeadline::new(ours, LIMIT);
        let mut read = [0; 16];
        let slow = async {
            for _ in 0..8 {
                sleep(LIMIT - Duration::from_millis(1)).await;
                theirs.read_exact(&mut read).await.unwrap();
            }
        };
        let (wrote, ()) = tokio::join!(ours.write_all(&[1; 8 * 16]), slow);
        wrote.unwrap();
        let error = ours.write_all(&[1; 17]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(theirs);
    }
}
