use super::super::socket::CountedSocket;
use super::*;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

const ANY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

fn to(destination: SocketAddr) -> Transmit<'static> {
    Transmit { destination, ecn: None, contents: &[], segment_size: None, src_ip: None }
}

#[test]
fn an_endpoint_outside_of_its_runtime_is_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it runs");
    let _inside = runtime.enter();
    let refused = CountedSocket::new(ANY, None, Arc::default()).expect_err("no datagram would leave");
    assert!(refused.to_string().contains("runtime"), "{refused}");
}

#[test]
fn datagrams_leave_in_their_order_when_the_thread_waits_or_the_future_ends() {
    let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback works");
    let address = peer.local_addr().expect("it is bound");
    peer.set_nonblocking(true).expect("it can be");
    let received = || {
        let mut buffer = [0; 16];
        peer.recv(&mut buffer).map(|length| buffer[..length].to_vec()).ok()
    };
    let runtime = Runtime::new().expect("it runs");
    runtime.block_on(async {
        let socket = Arc::new(Datagrams::bind(ANY, Some(address)).expect("it connects"));
        for number in 0..4 {
            send(&socket, &to(address), &[number]);
        }
        assert_eq!(received(), None);
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        assert_eq!(
            [(); 5].map(|()| received()),
            [Some(vec![0]), Some(vec![1]), Some(vec![2]), Some(vec![3]), None]
        );
        send(&socket, &to(address), b"last");
    });
    assert_eq!(received(), Some(b"last".to_vec()));
}

#[test]
fn a_refusal_of_an_earlier_datagram_costs_no_later_one() {
    let gone = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback works");
    let address = gone.local_addr().expect("it is bound");
    drop(gone);
    let runtime = Runtime::new().expect("it runs");
    let socket = runtime.block_on(async {
        let socket = Arc::new(Datagrams::bind(ANY, Some(address)).expect("it connects"));
        send(&socket, &to(address), b"refused");
        socket
    });
    let peer = UdpSocket::bind(address).expect("nobody else takes the port");
    peer.set_nonblocking(true).expect("it can be");
    runtime.block_on(async { send(&socket, &to(address), b"later") });
    let mut buffer = [0; 16];
    let length = peer.recv(&mut buffer).expect("it has arrived");
    assert_eq!(&buffer[..length], b"later");
}

#[test]
fn a_timer_wakes_at_its_time_or_earlier_if_it_was_set_to_that() {
    let runtime = Runtime::new().expect("it runs");
    let begun = monotonic_ns();
    let mut timer = Timer::new(begun + 5_000_000);
    let mut wakes = Vec::new();
    runtime.block_on(std::future::poll_fn(|context| {
        let now = monotonic_ns();
        wakes.push(now - begun);
        match wakes.len() {
            1 => {
                timer.arm(context.waker());
                timer.at_ns = begun + 20_000_000;
                timer.arm(context.waker());
            }
            2 => timer.arm(context.waker()),
            _ => return std::task::Poll::Ready(()),
        }
        std::task::Poll::Pending
    }));
    assert!(wakes[1] >= 5_000_000 && wakes[2] >= 20_000_000, "{wakes:?}");
}
