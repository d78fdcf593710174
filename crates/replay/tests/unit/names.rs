use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 19, 0, 1));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0x19, 0, 0, 0, 1));

fn query(id: u16, name: &str) -> io::Result<Vec<u8>> {
    super::query(id, name, ip::Version::V4)
}

fn names(conduct: Conduct) -> Names {
    let only = |preferred| ip::Addresses { preferred, other: None };
    let both = ip::Addresses { preferred: V6, other: Some(V4) };
    let zone = [("a.test", only(V4)), ("six.test", only(V6)), ("both.test", both)];
    let zone = zone.map(|(name, addresses)| (name.to_owned(), addresses)).into();
    Names {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
        zone,
        conduct,
        protocol: NameLookup::Do53,
        tls: None,
    }
}

fn asked(name: &str, conduct: Conduct) -> (String, Option<Answer>) {
    let (name, reply) = answer(&query(7, name).unwrap(), &names(conduct)).unwrap();
    (name, read_answer(&reply, 7))
}

#[test]
fn a_known_name_has_an_address_in_any_case() {
    let address = Answer::Address(V4);
    assert_eq!(asked("a.test", Conduct::Answers), ("a.test".into(), Some(address)));
    assert_eq!(asked("A.TEST", Conduct::Answers).1, Some(address));
}

#[test]
fn an_unknown_name_does_not_exist() {
    assert_eq!(asked("b.test", Conduct::Answers).1, Some(Answer::NoName));
    assert_eq!(asked("a.test", Conduct::Nxdomain).1, Some(Answer::NoName));
}

#[test]
fn a_known_name_has_no_address_of_another_type() {
    use ip::Version::{V4 as Four, V6 as Six};
    let asked = |name, version| {
        let query = super::query(7, name, version).unwrap();
        read_answer(&answer(&query, &names(Conduct::Answers)).unwrap().1, 7)
    };
    assert_eq!(asked("a.test", Six), Some(Answer::NoName));
    assert_eq!(asked("six.test", Four), Some(Answer::NoName));
    assert_eq!(asked("both.test", Four), Some(Answer::Address(V4)));
    assert_eq!(asked("both.test", Six), Some(Answer::Address(V6)));
    assert_eq!(asked("six.test", Six), Some(Answer::Address(V6)));
}

#[test]
fn a_query_crosses_https_in_the_parameter_or_the_body() {
    let (asked, resolver) = (query(0, "a.test").unwrap(), SocketAddr::from((Ipv4Addr::LOCALHOST, 443)));
    let (get, ()) = https_request(resolver, &asked).unwrap().into_parts();
    assert_eq!(get.uri.query(), Some("dns=AAABAAABAAAAAAAAAWEEdGVzdAAAAQAB"));
    assert_eq!(https_query(&get, Vec::new()), Some(asked.clone()));
    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, 443));
    assert_eq!(https_request(six, &asked).unwrap().uri().host(), Some("[::1]"));
    let uri = "https://127.0.0.1/dns-query";
    let post = |kind| Request::post(uri).header(CONTENT_TYPE, kind).body(()).unwrap().into_parts().0;
    assert_eq!(https_query(&post("application/dns-message"), asked.clone()), Some(asked.clone()));
    assert_eq!(https_query(&post("text/plain"), asked), None);
    for wrong in ["/dns-query", "/dns-query?dns=*", "/other?dns=AAAB"] {
        let (get, ()) = Request::get(wrong).body(()).unwrap().into_parts();
        assert_eq!(https_query(&get, Vec::new()), None, "{wrong}");
    }
}

#[test]
fn other_answers_and_rubbish_are_ignored() {
    let (_, reply) = answer(&query(7, "a.test").unwrap(), &names(Conduct::Answers)).unwrap();
    assert_eq!(read_answer(&reply, 8), None);
    assert_eq!(read_answer(&reply[..9], 7), None);
    assert_eq!(read_answer(&query(7, "a.test").unwrap(), 7), None);
    assert!(answer(b"rubbish", &names(Conduct::Answers)).is_none());
    assert!(query(7, &"a".repeat(64)).is_err());
}
