//! Tests of the packets of loads, which the program records as pcapng files.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::support::{Run, image, job, network, number, page, rate, root, with};
use crate::virtual_time::{in_virtual_time, on_each_engine, written};

/// Returns a job that records its packets, with a `ClientHello` that fits into a SYN.
fn keeping(arms: &[&str]) -> Value {
    let page = page(&[root(20_000), image("http://b.test/picture", 30_000)]);
    let way = rate(4_000_000);
    let network = with(network(40_000), json!({"down": way, "up": way}));
    with(job(&page, &network, arms), json!({"packets": true, "tls": {"key_share": "x25519"}}))
}

/// Returns the pcapng file of a load, joined from its `packets` records.
pub(crate) fn file(run: &Run, id: &str) -> Vec<u8> {
    let pieces = run.of_type("packets").into_iter().filter(|piece| piece["id"] == id);
    pieces
        .flat_map(|piece| {
            BASE64_STANDARD.decode(piece["pcapng"].as_str().expect("text")).expect("it is base64")
        })
        .collect()
}

/// Returns the types and bodies of the blocks of a pcapng file.
fn blocks(mut file: &[u8]) -> Vec<(u32, &[u8])> {
    let mut found = Vec::new();
    while !file.is_empty() {
        let word = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().expect("it is inside"));
        let (kind, length) = (word(0), word(4) as usize);
        let (block, rest) = file.split_at(length);
        found.push((kind, &block[8..length - 4]));
        file = rest;
    }
    found
}

/// Returns the interface, the TCP segment and the length of the segment's data for each packet of a file.
pub(crate) fn segments(file: &[u8]) -> Vec<(u8, &[u8], usize)> {
    let packets = blocks(file).into_iter().filter(|(kind, _)| *kind == 6);
    packets
        .map(|(_, body)| {
            let length = u32::from_le_bytes(*body[12..].first_chunk().expect("it is inside")) as usize;
            let segment = &body[20 + 14 + 20..20 + length];
            (body[0], segment, segment.len() - usize::from(segment[12] >> 4) * 4)
        })
        .collect()
}

#[test]
fn both_ends_see_data_in_the_syn_and_the_file_has_names_and_secrets() {
    for run in on_each_engine(&keeping(&["tls", "tls-warm"])) {
        for (id, with_data) in
            [("tls", 0), ("tls-warm", run.valid("tls-warm")["connections"].as_array().map_or(0, Vec::len))]
        {
            let file = file(&run, id);
            let segments = segments(&file);
            for interface in [0, 1] {
                let syns = segments.iter().filter(|(at, segment, data)| {
                    *at == interface && segment[13] & 0x12 == 0x02 && *data > 0
                });
                assert_eq!(syns.count(), with_data, "{id}, interface {interface}");
            }
            let of = |kind: u32| blocks(&file).into_iter().find(|one| one.0 == kind).expect("it is there").1;
            let holds = |kind, text: &str| of(kind).windows(text.len()).any(|part| part == text.as_bytes());
            assert!(holds(4, "a.test") && holds(4, "b.test") && holds(4, "client"));
            assert!(holds(10, "CLIENT_HANDSHAKE_TRAFFIC_SECRET ") && holds(10, "SERVER_TRAFFIC_SECRET_0 "));
        }
        let kinds: Vec<_> = run.records.iter().map(|record| record["type"].as_str().unwrap_or("")).collect();
        assert_eq!(kinds, ["world", "packets", "load", "packets", "load", "end"]);
        assert!(run.of_type("packets").iter().all(|piece| number(&piece["dropped"]) == 0));
    }
}

#[test]
fn keeping_packets_changes_no_byte_of_a_record_in_virtual_time() {
    let Some(engine) = in_virtual_time() else { return };
    let keeping = keeping(&["tcp", "cold", "warm", "tls"]);
    let with_packets = written(engine, &keeping.to_string());
    let without = with(keeping, json!({"packets": false})).to_string();
    let without = written(in_virtual_time().expect("it was there a moment ago"), &without);
    let loads = |output: &str| -> Vec<String> {
        output.lines().filter(|line| line.starts_with(r#"{"type":"load""#)).map(str::to_owned).collect()
    };
    assert_eq!(loads(&with_packets), loads(&without));
    assert_eq!(loads(&without).len(), 4);
}

#[test]
fn a_request_on_an_open_connection_leaves_before_the_syns_of_the_same_moment() {
    let more = (1..4).map(|number| image(&format!("http://a.test/{number}"), 500));
    let page = page(&[root(2000)].into_iter().chain(more).collect::<Vec<_>>());
    let job = with(job(&page, &network(40_000), &["tcp"]), json!({"packets": true}));
    for run in on_each_engine(&job) {
        let file = file(&run, "tcp");
        let sent = segments(&file).into_iter().filter_map(|(interface, segment, data)| {
            let is_syn = segment[13] & 0x12 == 0x02;
            (interface == 0 && segment[2..4] == 80_u16.to_be_bytes() && (is_syn || data > 0))
                .then_some(is_syn)
        });
        let kinds: Vec<_> = sent.take(6).map(|is_syn| if is_syn { "SYN" } else { "request" }).collect();
        assert_eq!(kinds, ["SYN", "request", "request", "SYN", "SYN", "request"]);
    }
}
