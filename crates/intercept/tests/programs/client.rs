//! A program without Fast Open code: `client MODE ADDRESS COUNT`. Tests link it statically and dynamically.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let address: SocketAddr = arguments[2].parse().expect("an address");
    let count: usize = arguments[3].parse().expect("a number");
    match arguments[1].as_str() {
        "write" => (0..count).for_each(|_| exchange(TcpStream::connect(address).expect("connect"))),
        // `connect_timeout` uses a non-blocking socket.
        "nonblocking" => (0..count).for_each(|_| {
            exchange(TcpStream::connect_timeout(&address, Duration::from_secs(5)).expect("connect"));
        }),
        "threads" => std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    (0..count).for_each(|_| exchange(TcpStream::connect(address).expect("connect")));
                });
            }
        }),
        "children" => (0..count).for_each(|_| {
            let status = Command::new(&arguments[0]).args(["write", &arguments[2], "1"]).status();
            assert!(status.expect("a child").success());
        }),
        "read" => (0..count).for_each(|_| {
            let mut greeting = [0; 5];
            TcpStream::connect(address).expect("connect").read_exact(&mut greeting).expect("a greeting");
            assert_eq!(&greeting, b"hello");
        }),
        "peer" => (0..count).for_each(|_| {
            let stream = TcpStream::connect(address).expect("connect");
            assert_eq!(stream.peer_addr().expect("connected"), address);
            exchange(stream);
        }),
        "serve" => serve(address, count),
        "others" => others(address),
        // Connect once for each line of standard input, and print the result.
        "stepwise" => std::io::stdin().lines().for_each(|line| {
            drop(line);
            match TcpStream::connect(address) {
                Ok(mut stream) => println!("connected {}", stream.write(b"x").is_ok()),
                Err(error) => println!("failed {}", error.raw_os_error().unwrap_or(0)),
            }
        }),
        mode => panic!("no such mode: {mode}"),
    }
}

fn exchange(mut stream: TcpStream) {
    stream.write_all(b"request").expect("write");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("read");
    assert_eq!(answer, b"answer");
}

fn serve(address: SocketAddr, count: usize) {
    let listener = TcpListener::bind(address).expect("bind");
    println!("listening");
    for _ in 0..count {
        let (mut stream, _) = listener.accept().expect("accept");
        let _ = stream.read(&mut [0; 100]);
        stream.write_all(b"answer").expect("write");
    }
}

/// Uses sockets other than TCP sockets.
fn others(address: SocketAddr) {
    let folder = std::env::temp_dir().join(format!("fastopen-intercept-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    // For some of these name lengths, the seccomp filter lets `connect` pass; for others, it leaves the call
    // to the supervisor.
    for length in [1, 13, 25, 40] {
        let path = folder.join("n".repeat(length));
        let listener = UnixListener::bind(&path).expect("bind");
        let stream = UnixStream::connect(&path).expect("connect");
        assert!(stream.peer_addr().is_ok());
        drop((stream, listener.accept().expect("accept")));
    }
    std::fs::remove_dir_all(&folder).expect("it is there");
    let socket = UdpSocket::bind((address.ip(), 0)).expect("bind");
    socket.connect(address).expect("connect");
    assert_eq!(socket.peer_addr().expect("connected"), address);
}
