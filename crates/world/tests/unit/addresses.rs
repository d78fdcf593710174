use super::*;

#[test]
fn an_origin_is_known_by_its_address() {
    for ip in [Version::V4, Version::V6] {
        assert_eq!(origin_number(origin_address(ip, 0)), Some(0));
        assert_eq!(origin_number(origin_address(ip, 300)), Some(300));
        assert_eq!(origin_number(client_address(ip, 3)), None);
        assert_eq!(origin_number(origin_network(ip).0), None);
    }
    assert_eq!(origin_number(IpAddr::V6(Ipv4Addr::new(198, 19, 0, 1).to_ipv6_mapped())), None);
}

#[test]
fn addresses_are_of_the_blocks_for_benchmarks() {
    let shown = |address: IpAddr| address.to_string();
    assert_eq!(shown(client_address(Version::V4, 1)), "198.18.0.2");
    assert_eq!(shown(origin_address(Version::V4, 255)), "198.19.1.0");
    assert_eq!(shown(resolver_address(Version::V4)), "198.19.255.53");
    assert_eq!(shown(client_address(Version::V6, 1)), "2001:2:0:18::2");
    assert_eq!(shown(resolver_address(Version::V6)), "2001:2:0:19::ff35");
}
