use super::*;

fn packet(protocol: u8, source_port: u16, fragment: u16) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1];
    ip[6..8].copy_from_slice(&fragment.to_be_bytes());
    ip.extend(source_port.to_be_bytes());
    ip.extend([0, 80, 1, 2, 3, 4]);
    ip
}

fn hash(seed: u64) -> FlowHash {
    FlowHash { seed, addresses: BTreeMap::new() }
}

#[test]
fn a_flow_is_told_by_protocol_addresses_and_ports() {
    let mut hash = hash(1);
    let mut key = |protocol, port| hash.of(&packet(protocol, port, 0));
    assert_eq!(key(6, 1000), key(6, 1000));
    assert_ne!(key(6, 1000), key(6, 1001));
    assert_ne!(key(6, 1000), key(17, 1000));
    let mut other_host = packet(6, 1000, 0);
    other_host[19] = 2;
    assert_ne!(hash.of(&packet(6, 1000, 0)), hash.of(&other_host));
}

#[test]
fn the_clients_address_does_not_decide_which_flows_share_a_queue() {
    let hashes = |client: u8| {
        let mut hash = hash(1);
        let hosts = (1..=3).map(|host| {
            let mut packet = packet(6, 1000, 0);
            (packet[15], packet[19]) = (client, host);
            hash.of(&packet)
        });
        hosts.collect::<Vec<_>>()
    };
    assert_eq!(hashes(7), hashes(8));
}

#[test]
fn a_flow_of_ipv6_is_told_by_the_same_fields() {
    let mut hash = hash(1);
    let mut packet = |host: u8, port: u16, label: u8| {
        let mut ip = vec![0x60, 0, 0, label, 0, 20, 6, 64];
        ip.extend([[0; 15].as_slice(), &[1], &[0; 15], &[host]].concat());
        ip.extend(port.to_be_bytes());
        ip.extend([0, 80]);
        hash.of(&ip)
    };
    assert_eq!(packet(1, 1000, 0), packet(1, 1000, 7), "a flow label identifies no flow");
    assert_ne!(packet(1, 1000, 0), packet(2, 1000, 0));
    assert_ne!(packet(1, 1000, 0), packet(1, 1001, 0));
}

#[test]
fn what_has_no_ports_is_a_flow_by_its_addresses() {
    let mut hash = hash(1);
    let mut of = |ip: &[u8]| hash.of(ip);
    assert_eq!(of(&packet(1, 1000, 0)), of(&packet(1, 2000, 0)));
    assert_eq!(of(&packet(6, 1000, 20)), of(&packet(6, 2000, 20)));
    assert_eq!(of(&packet(6, 1000, 0)[..20]), of(&packet(6, 2000, 0)[..20]));
    assert_eq!((of(&[]), of(&[0x60; 39])), (mix(0, 1), mix(0, 1)));
}

#[test]
fn flows_are_spread_over_the_queues_and_a_seed_spreads_them_otherwise() {
    let queues = |seed| -> Vec<_> {
        let mut hash = hash(seed);
        (0..200).map(|port| hash.of(&packet(6, 1000 + port, 0)) % 1024).collect()
    };
    let different: std::collections::BTreeSet<_> = queues(1).into_iter().collect();
    // With 200 flows in 1024 queues, about 18 fewer queues than flows are expected.
    assert!((165..200).contains(&different.len()), "{}", different.len());
    assert_ne!(queues(1), queues(2));
}
