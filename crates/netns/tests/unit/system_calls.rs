use std::io::ErrorKind;
use std::net::UdpSocket;

#[test]
fn the_linker_takes_these_in_place_of_libcs() {
    assert_eq!(libc::epoll_wait as *const (), super::epoll_wait as *const ());
    assert_eq!(libc::recv as *const (), super::recv as *const ());
    assert_eq!(libc::syscall as *const (), super::syscall as *const ());
}

#[test]
fn the_standard_library_works_with_them_and_knows_their_errors() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback works");
    socket.connect(socket.local_addr().expect("it is bound")).expect("it connects");
    socket.set_nonblocking(true).expect("it can be");
    let mut buffer = [0; 8];
    assert_eq!(socket.recv(&mut buffer).expect_err("nothing came").kind(), ErrorKind::WouldBlock);
    assert_eq!(socket.send(b"seven b").expect("there is room"), 7);
    assert_eq!(socket.recv(&mut buffer).expect("it came"), 7);
    assert_eq!(&buffer[..7], b"seven b");
}
