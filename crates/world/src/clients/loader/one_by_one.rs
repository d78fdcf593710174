//! Requests on a connection of HTTP/1: the next is sent when the answer to the one before has ended.

use std::error::Error;
use std::io;

use fastopen_replay::body::SizedBody;
use fastopen_replay::stream::{Duplex, WatchedStream};
use http_body_util::BodyExt;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::CONNECTION;
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc::UnboundedReceiver;

use super::connection::Connection;
use super::{Answer, Command, Opened, Report};

/// Carries requests over `stream` until nobody has any more or it breaks.
///
/// # Errors
/// Where it cannot carry any.
pub(super) async fn carry(
    connection: &Connection,
    stream: Box<dyn Duplex>,
    opened: Opened,
    mut commands: UnboundedReceiver<Command>,
) -> io::Result<()> {
    let id = connection.id;
    let stream = WatchedStream::new(stream);
    let watch = stream.watch();
    let (mut sender, driven) =
        Builder::new().max_headers(1000).handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let mut driven = tokio::spawn(driven);
    connection.tell(Report::Ready(id, opened));
    loop {
        let command = tokio::select! {
            biased;
            command = commands.recv() => match command {
                Some(command) => command,
                None => return Ok(()),
            },
            _ = &mut driven => {
                connection.tell(Report::Closed(id));
                return Ok(());
            }
        };
        watch.restart();
        let resource = command.resource;
        let mut answer = Answer::default();
        let outcome = exchange(connection, &mut sender, command, &mut answer).await;
        let traffic = watch.traffic();
        answer.sent_ns = traffic.first_write_ns;
        answer.first_byte_ns = traffic.first_read_ns;
        answer.header_bytes = traffic.bytes_read.saturating_sub(answer.body_bytes);
        match outcome {
            Ok(reusable) => {
                answer.end_ns = traffic.last_read_ns;
                connection.tell(Report::End { connection: id, resource, reusable, answer });
            }
            Err(error) => {
                let answered = traffic.bytes_read > 0;
                connection.tell(Report::Broken { connection: id, resource, answered, answer, error });
                return Ok(());
            }
        }
    }
}

/// Sends a request and takes its answer in. Says whether the connection can carry another.
async fn exchange(
    connection: &Connection,
    sender: &mut SendRequest<SizedBody>,
    Command { resource, request, progress }: Command,
    answer: &mut Answer,
) -> Result<bool, String> {
    let tell_progress = |bytes| {
        if progress {
            connection.tell(Report::Progress { resource, bytes });
        }
    };
    let in_words = |error: hyper::Error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}")
    };
    let response = sender.send_request(request).await.map_err(in_words)?;
    let (head, mut body) = response.into_parts();
    answer.status = Some(head.status.as_u16());
    tell_progress(0);
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame.map_err(in_words)?.data_ref() {
            answer.body_bytes += data.len() as u64;
            tell_progress(answer.body_bytes);
        }
    }
    let closes =
        head.headers.get(CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"));
    Ok(!closes && sender.ready().await.is_ok())
}
