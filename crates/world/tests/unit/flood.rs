use super::*;

#[test]
fn syns_keep_their_rate_and_meet_no_fixed_intervals() {
    let offsets: Vec<_> = (0..2000).map(|number| offset_ns(number, 2000)).collect();
    assert!(offsets.is_sorted());
    assert!(offsets.iter().enumerate().all(|(at, ns)| ns / 500_000 == at as u64));
    let early = offsets.iter().filter(|ns| *ns % 500_000 < 250_000).count();
    assert!((900..1100).contains(&early), "{early}");
}

#[test]
fn a_syn_has_its_cookie_its_data_and_its_checksum() {
    for (ip, checksum) in [(Version::V4, [0xc0, 0xb4]), (Version::V6, [0x0c, 0xa4])] {
        let [from, to] = [0, 1].map(|number| SocketAddr::new(client_address(ip, number), 80));
        let packet = syn(from, to, 7, Some(&[9; 8]), b"odd");
        let tcp = ip.header_bytes() as usize;
        assert_eq!(packet.len(), tcp + 20 + 4 + 12 + 3);
        assert_eq!(ip::length(&packet), Some(packet.len()));
        assert_eq!(packet[tcp + 24..tcp + 34], [34, 10, 9, 9, 9, 9, 9, 9, 9, 9]);
        assert_eq!(packet[tcp + CHECKSUM..tcp + CHECKSUM + 2], checksum);
        assert_eq!(syn(from, to, 7, None, b"odd").len(), tcp + 20 + 4);
    }
}
