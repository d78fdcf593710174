//! Tests the certificates that a world's certificate authority issues.

use fastopen_replay::tls::Authority;

const NOW_NS: u64 = 1_000_000_000_000_000_000;

fn chain_bytes(authority: &Authority, host: &str, wanted: usize) -> usize {
    authority
        .identity(&[host.to_owned()].into(), wanted)
        .unwrap()
        .cert
        .iter()
        .map(|certificate| certificate.len())
        .sum()
}

#[test]
fn chains_have_the_requested_bytes_whatever_the_name() {
    let authority = Authority::new(NOW_NS).unwrap();
    for host in ["a.test", "a-very-long-name.of-a-shard.static.example.org", "192.0.2.1", "a_b.test"] {
        for wanted in [2000, 3500, 8000] {
            assert_eq!(chain_bytes(&authority, host, wanted), wanted, "{host}");
        }
    }
}

#[test]
fn authorities_differ_but_their_sizes_do_not() {
    let (one, other) = (Authority::new(NOW_NS).unwrap(), Authority::new(NOW_NS).unwrap());
    assert_ne!(one.root_pem(), other.root_pem());
    assert_eq!(one.root_pem().len(), other.root_pem().len());
    for host in ["a.test", "b.test", "c.test", "d.test"] {
        assert_eq!(chain_bytes(&one, host, 0), chain_bytes(&other, host, 0));
    }
}
