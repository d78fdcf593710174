//! Tests of the samples of the origins' sockets that `tcp_trace` adds to records.

use serde_json::{Value, json};

use crate::support::{arms, image, job, list, network, number, page, rate, root, run_command, with};
use crate::virtual_time::{in_virtual_time, on_each_engine, written};

fn traced() -> Value {
    let page = page(&[root(100_000), image("http://b.test/", 60_000)]);
    let way = rate(4_000_000);
    let network = with(network(40_000), json!({"down": way, "up": way}));
    with(job(&page, &network, &["tcp"]), json!({"tcp_trace": true}))
}

#[test]
fn the_window_of_a_connection_opens_while_it_sends() {
    for run in on_each_engine(&traced()) {
        let load = run.valid("tcp");
        for connection in list(&load["connections"]) {
            let samples = list(&connection["origin_samples"]);
            let all = |key: &str| samples.iter().map(|sample| number(&sample[key])).collect::<Vec<_>>();
            assert!(all("at_ns").is_sorted() && all("at_ns")[0] >= number(&connection["opened_ns"]));
            let window = all("congestion_window_segments");
            // In real time, the first sample may be taken after the window has grown. Responses may be so
            // late that TCP sends a tail loss probe, which the congestion window does not hold back (RFC
            // 8985).
            let real = !run.is_of("virtual");
            assert!(if real { window[0] >= 10 } else { window[0] == 10 }, "{window:?}");
            assert!(window.iter().max() > Some(&window[0]), "{window:?}");
            let in_flight = all("in_flight_segments");
            let probe = u64::from(real);
            assert!(
                in_flight.iter().zip(&window).all(|(one, most)| *one <= most + probe),
                "{in_flight:?}, {window:?}"
            );
            assert!(in_flight.iter().any(|one| *one > 0) && all("segment_bytes").contains(&1448));
            assert!(all("rtt_us").iter().max() >= Some(&40_000));
        }
    }
}

#[test]
fn a_trace_changes_nothing_else_in_virtual_time() {
    let Some(engine) = in_virtual_time() else { return };
    let plain = with(traced(), json!({"loads": arms(&["tcp", "cold", "warm", "tls"]), "tcp_trace": false}));
    let expected = written(engine, &plain.to_string());
    let expected: Vec<Value> =
        expected.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let traced = with(plain, json!({"tcp_trace": true})).to_string();
    let mut run = run_command(&mut in_virtual_time().expect("it was there a moment ago"), traced.as_bytes());
    let mut samples = 0;
    for record in run.records.iter_mut().filter(|record| record["type"] == "load") {
        for connection in record["connections"].as_array_mut().expect("a list") {
            samples += list(&connection["origin_samples"]).len();
            connection["origin_samples"] = json!([]);
        }
    }
    assert!(samples > 100, "{samples} samples prove little");
    let loads = |records: &[Value]| -> Vec<Value> {
        records.iter().filter(|record| record["type"] == "load").cloned().collect()
    };
    assert_eq!(loads(&run.records), loads(&expected));
}
