use super::*;

#[test]
fn datagrams_are_found_in_frames_and_nothing_else_is() {
    let mut frame =
        [vec![0; ETHERNET_HEADER], vec![0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, ip::UDP, 0, 0]].concat();
    frame.extend([[198, 18, 0, 1], [198, 19, 0, 2]].concat());
    frame.extend([0x9c, 0x40, 1, 187, 0, 11, 0, 0]);
    frame.extend([1, 2, 3, 0, 0]);
    let four_tuple = FourTuple {
        client: SocketAddr::from(([198, 18, 0, 1], 40_000)),
        origin: SocketAddr::from(([198, 19, 0, 2], 443)),
    };
    assert_eq!(datagram(&frame, true), Some((four_tuple, &[1, 2, 3][..])));
    let FourTuple { client, origin } = four_tuple;
    let turned = FourTuple { client: origin, origin: client };
    assert_eq!(datagram(&frame, false), Some((turned, &[1, 2, 3][..])));
    for length in 0..ETHERNET_HEADER + 28 {
        assert_eq!(datagram(&frame[..length], true), None);
    }
    frame[ETHERNET_HEADER + 9] = 6;
    assert_eq!(datagram(&frame, true), None);
}
