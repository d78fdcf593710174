//! Requests on a connection of HTTP/2: each on a stream of its own, as many at once as there are.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use bytes::Bytes;
use fastopen_page::ConnectionId;
use fastopen_replay::http2::cork::corked;
use fastopen_replay::http2::frames::Frames;
use fastopen_replay::http2::sending::{PIECE, send_body};
use fastopen_replay::http2::turns::{Priority, Turns};
use fastopen_replay::http2::{CONNECTION_WINDOW, HEAD, HEADER_TABLE, STREAM_WINDOW};
use fastopen_replay::stream::{Duplex, Watch, WatchedStream};
use h2::client::{Builder, ResponseFuture, SendRequest};
use hyper::Request;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

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
    let stream = WatchedStream::<Frames>::new(stream);
    let streams =
        Streams { id, events: connection.events.clone(), watch: stream.watch(), turns: Turns::default() };
    let (stream, cork) = corked(stream);
    let (mut sender, mut driven) = Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .header_table_size(HEADER_TABLE)
        .max_header_list_size(HEAD)
        .max_send_buffer_size(PIECE)
        .handshake::<_, Bytes>(stream)
        .await
        .map_err(io::Error::other)?;
    connection.tell(Report::Ready(id, opened));
    // What comes before the first request goes with it: as one packet, and in the clear into the SYN.
    let Some(first) = commands.recv().await else { return Ok(()) };
    streams.ask(&mut sender, first).await;
    let mut driven = tokio::spawn(poll_fn(move |context| {
        cork.after(context, |context| Pin::new(&mut driven).poll(context))
    }));
    loop {
        tokio::select! {
            biased;
            command = commands.recv() => match command {
                Some(command) => streams.ask(&mut sender, command).await,
                None => return Ok(()),
            },
            _ = &mut driven => {
                connection.tell(Report::Closed(id));
                return Ok(());
            }
        }
    }
}

/// The streams of one connection.
#[derive(Clone)]
struct Streams {
    id: ConnectionId,
    events: UnboundedSender<Report>,
    watch: Watch<Frames>,
    turns: Turns,
}

impl Streams {
    fn tell(&self, report: Report) {
        // Nobody listens once the load is over.
        let _ = self.events.send(report);
    }

    /// Sends a request; a task of its own takes the answer in.
    async fn ask(&self, sender: &mut SendRequest<Bytes>, Command { resource, request, progress }: Command) {
        let (head, body) = request.into_parts();
        let head = Request::from_parts(head, ());
        let sent = match poll_fn(|context| sender.poll_ready(context)).await {
            Ok(()) => sender.send_request(head, body.is_empty()),
            Err(error) => Err(error),
        };
        match sent {
            Err(error) => self.tell(Report::Broken {
                connection: self.id,
                resource,
                answered: false,
                answer: Answer::default(),
                error: error.to_string(),
            }),
            Ok((response, mut upload)) => {
                let streams = self.clone();
                tokio::spawn(async move {
                    // An upload that breaks off shows in its answer.
                    let _ = send_body(&mut upload, body, &streams.turns, Priority::default()).await;
                });
                tokio::spawn(self.clone().take_in(resource, response, progress));
            }
        }
    }

    async fn take_in(self, resource: usize, response: ResponseFuture, progress: bool) {
        let stream = response.stream_id().as_u32();
        let mut answer = Answer::default();
        let outcome = self.receive(resource, response, progress, &mut answer).await;
        let crossed = self.watch.ask(|frames| frames.stream(stream));
        answer.sent_ns = crossed.written.first_ns;
        answer.first_byte_ns = crossed.read.first_ns;
        answer.header_bytes = crossed.read.head_bytes;
        let connection = self.id;
        self.tell(match outcome {
            Ok(()) => {
                answer.end_ns = crossed.read.last_ns;
                Report::End { connection, resource, reusable: true, answer }
            }
            Err(error) => {
                let (answered, error) = (crossed.read.first_ns.is_some(), error.to_string());
                Report::Broken { connection, resource, answered, answer, error }
            }
        });
    }

    async fn receive(
        &self,
        resource: usize,
        response: ResponseFuture,
        progress: bool,
        answer: &mut Answer,
    ) -> Result<(), h2::Error> {
        let tell_progress = |bytes| {
            if progress {
                self.tell(Report::Progress { resource, bytes });
            }
        };
        let (head, mut body) = response.await?.into_parts();
        answer.status = Some(head.status.as_u16());
        tell_progress(0);
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            answer.body_bytes += chunk.len() as u64;
            body.flow_control().release_capacity(chunk.len())?;
            tell_progress(answer.body_bytes);
        }
        Ok(())
    }
}
