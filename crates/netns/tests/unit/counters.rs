use super::*;

#[test]
fn a_group_is_read_by_name() {
    let text = "TcpExt: A TCPFastOpenActive\nTcpExt: 1 2\nIpExt: A\nIpExt: 9\n";
    let read: Vec<_> = parse(text, "TcpExt:").collect();
    assert_eq!(read, [("A".to_owned(), 1), ("TCPFastOpenActive".to_owned(), 2)]);
}

#[test]
fn counters_of_udp_over_ipv6_have_the_names_of_ipv4() {
    let text = "Ip6InReceives \t9\nUdp6InDatagrams \t3\nUdp6RcvbufErrors  \t0\nUdpLite6InErrors\t5\n";
    let read: Vec<_> = parse_udp6(text).collect();
    assert_eq!(read, [("UdpInDatagrams".to_owned(), 3), ("UdpRcvbufErrors".to_owned(), 0)]);
}

#[test]
fn growth_leaves_out_what_did_not_grow() {
    let counters = |a, b| Counters::from([("A".to_owned(), a), ("B".to_owned(), b)]);
    assert_eq!(growth(&counters(3, 1), &counters(3, 5)), [("B".to_owned(), 4)].into());
}
