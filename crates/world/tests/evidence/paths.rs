//! Paths that break TCP Fast Open.

use crate::support::{A, Load, NONE};
use fastopen_link::path::{Behaviour, PathRule};
use fastopen_world::contract::InvalidKind;

/// A warm load behind a middlebox that takes options out, with what Linux shows of it.
fn stripped() -> Load {
    let mut load = Load::warm();
    load.path = PathRule { behaviour: Behaviour::StripOption, hosts: None };
    for connection in &mut load.connections {
        for end in [&mut connection.client, &mut connection.origin].into_iter().flatten() {
            end.syn_data_acked = false;
        }
        connection.client.as_mut().expect("it has one").fastopen_client_fail = 2;
    }
    load.count();
    load.counters.client.insert("TCPFastOpenActiveFail".into(), 2);
    load
}

#[test]
fn what_a_path_does_to_connections_is_expected_of_them_and_nothing_else() {
    assert_eq!(stripped().kinds(), NONE);
    let accepted = stripped().with(|load| {
        let connection = &mut load.connections[1];
        for end in [&mut connection.client, &mut connection.origin].into_iter().flatten() {
            (end.syn_data_acked, end.fastopen_client_fail) = (true, 0);
        }
        load.count();
        load.counters.client.insert("TCPFastOpenActiveFail".into(), 1);
    });
    assert_eq!(accepted.kinds(), [InvalidKind::PathWithoutEffect]);
    let otherwise = stripped().with(|load| {
        load.connections[0].client.as_mut().expect("it has one").fastopen_client_fail = 3;
    });
    assert_eq!(otherwise.kinds(), [InvalidKind::PathWithoutEffect]);
    let one_more = stripped().with(|load| {
        load.counters.client.insert("TCPFastOpenActiveFail".into(), 3);
    });
    assert_eq!(one_more.kinds(), [InvalidKind::FastopenFailed]);
    let not_behind = stripped().with(|load| load.path.hosts = Some([A.octets()].into()));
    assert_eq!(not_behind.kinds(), [InvalidKind::FastopenFailed, InvalidKind::NoSynData]);
}
