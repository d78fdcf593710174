use super::*;

fn packet(unix_ns: u64, bytes: &[u8]) -> Captured {
    Captured { unix_ns, outgoing: true, bytes: bytes.to_vec() }
}

fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    while !file.is_empty() {
        let word = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().expect("it is inside"));
        let length = word(4) as usize;
        assert_eq!(length % 4, 0);
        assert_eq!(word(length - 4) as usize, length, "a block ends with its length");
        found.push((word(0), file[8..length - 4].to_vec()));
        file = &file[length..];
    }
    found
}

#[test]
fn packets_of_both_ends_stand_in_the_order_of_their_stamps_behind_names_and_secrets() {
    let name = |name, packets| Interface { name, description: "", packets, dropped: 3 };
    let ends = [
        name("client", vec![packet(10, b"one"), packet(30, b"three")]),
        name("origins", vec![packet(20, b"two.")]),
    ];
    let file = file("a load", &[(IpAddr::from([198, 19, 0, 1]), "a.test")], "CLIENT_RANDOM 1 2\n", &ends, 40);
    let blocks = blocks(&file);
    let kinds: Vec<_> = blocks.iter().map(|(kind, _)| *kind).collect();
    let expected = [
        SECTION_HEADER,
        INTERFACE_DESCRIPTION,
        INTERFACE_DESCRIPTION,
        NAME_RESOLUTION,
        DECRYPTION_SECRETS,
        ENHANCED_PACKET,
        ENHANCED_PACKET,
        ENHANCED_PACKET,
        INTERFACE_STATISTICS,
        INTERFACE_STATISTICS,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(blocks[3].1[..16], *b"\x01\0\x0b\0\xc6\x13\0\x01a.test\0\0");
    let packets: Vec<_> = blocks[5..8].iter().map(|(_, body)| (body[0], body[8], body[20])).collect();
    assert_eq!(packets, [(0, 10, b'o'), (1, 20, b't'), (0, 30, b't')]);
}
