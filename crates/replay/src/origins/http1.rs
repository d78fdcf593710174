//! Serves HTTP/1: hyper answers the requests of a connection one after another.

use std::convert::Infallible;
use std::sync::Arc;

use fastopen_netns::clock::sleep_until;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use super::{Connection, Shared, site};
use crate::body::SizedBody;
use crate::counters::{CountersHandle, Duplex, SerialTraffic, counted};
use crate::http2::frame_counters::DirectionTraffic;

pub(super) async fn serve(stream: impl Duplex, connection: Connection, shared: Arc<Shared>) {
    let (stream, counters) = counted::<SerialTraffic>(stream);
    let service = service_fn(|request| {
        let (shared, connection, counters) = (shared.clone(), connection.clone(), counters.clone());
        async move { Ok::<_, Infallible>(respond(&shared, &connection, counters, request).await) }
    });
    // Ignore errors: the client causes and records them, or resets its connections at the end of a load.
    let _ = hyper::server::conn::http1::Builder::new()
        .auto_date_header(false)
        .keep_alive(shared.site.keep_alive)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn respond(
    shared: &Shared,
    connection: &Connection,
    counters: CountersHandle<SerialTraffic>,
    request: Request<Incoming>,
) -> Response<SizedBody> {
    let (request, body) = request.into_parts();
    let found = shared.find(connection, &request);
    let _ = body.collect().await;
    let (response, arrived) = shared.respond(connection, &request, found).await;
    let (header_bytes, body_bytes) = (site::response_header_bytes(&response), response.body().len());
    let number = counters.with(SerialTraffic::start_request);
    let due_ns = arrived.due_ns;
    shared.log.arrived(arrived, move || {
        // The bytes written since the request are the header of its response, then the body.
        let traffic = counters.with(|traffic| traffic.of_request(number));
        DirectionTraffic {
            first_ns: traffic.first_write_ns,
            last_ns: traffic.last_write_ns,
            header_bytes: traffic.bytes_written.min(header_bytes),
            body_bytes: traffic.bytes_written.saturating_sub(header_bytes).min(body_bytes),
            ended: traffic.bytes_written >= header_bytes + body_bytes,
        }
    });
    let _ = sleep_until(due_ns).await;
    response
}
