use super::*;
use fastopen_netns::tcp::OPT_SYN_DATA;

fn plain() -> TcpInfo {
    TcpInfo { segments_out: 3, bytes_acked: 1, ..TcpInfo::from_bytes(&[]) }
}

#[test]
fn a_plain_connection_is_established_and_no_more() {
    assert_eq!(Tally::of(&plain()), Tally { connections: 1, established: 1, ..Tally::default() });
}

#[test]
fn each_value_of_fastopen_client_fail_has_a_count_of_its_own() {
    let failing = |fail| Tally::of(&TcpInfo { fastopen_client_fail: fail, ..plain() });
    let established = Tally { connections: 1, established: 1, ..Tally::default() };
    assert_eq!(failing(1), Tally { cookie_requested: 1, ..established });
    assert_eq!(failing(2), Tally { syn_data_sent: 1, data_not_acked: 1, ..established });
    assert_eq!(failing(3), Tally { syn_data_sent: 1, syn_retransmitted: 1, ..established });
    let acknowledged = TcpInfo { options: OPT_SYN_DATA, ..plain() };
    assert_eq!(Tally::of(&acknowledged), Tally { syn_data_sent: 1, syn_data_acked: 1, ..established });
}

#[test]
fn a_connection_that_sent_nothing_is_unused_and_one_that_was_refused_has_failed() {
    let unused = TcpInfo { segments_out: 0, ..plain() };
    assert_eq!(Tally::of(&unused), Tally { connections: 1, unused: 1, ..Tally::default() });
    let refused = TcpInfo { segments_out: 1, bytes_acked: 0, bytes_sent: 7, ..plain() };
    assert_eq!(
        Tally::of(&refused),
        Tally { connections: 1, failed: 1, syn_data_sent: 1, ..Tally::default() }
    );
}
