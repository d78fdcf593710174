//! Measures the time that interception adds to a connection: the same exchanges on loopback with and without
//! interception, alternately. Prints medians.
//!
//! The program starts itself again in a new network namespace, and there again as the client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use fastopen_netns::route::RouteSocket;
use fastopen_netns::{sysctl, tcp};
use socket2::{Domain, Socket, Type};

const REPEATS: usize = 21;
const OPERATIONS: u32 = 1000;
const ADDRESS: &str = "127.0.0.1:8000";
/// Length of a path that fills `struct sockaddr_un`. The seccomp filter does not intercept `connect` calls
/// with an address of this size.
const FULL_PATH: usize = 107;
const GOAL_US: f64 = 50.0;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("inside") => inside(),
        Some("client") => println!("{}", client(&arguments[2])),
        _ => {
            let own = std::env::current_exe().expect("this is a program");
            let unshare = ["--user", "--map-root-user", "--net"];
            let done = Command::new("unshare").args(unshare).arg(own).arg("inside").status();
            assert!(done.expect("unshare (util-linux) is installed").success());
        }
    }
}

fn inside() {
    RouteSocket::open().and_then(|mut routes| routes.bring_up("lo")).expect("loopback");
    sysctl::set("net.ipv4.tcp_fastopen", "3").expect("the namespace is ours");
    let folder = folder();
    std::fs::create_dir(&folder).expect("the temporary folder is writable");
    serve(&folder);
    // Get the cookie before the first measurement.
    measured("fast-open", false);
    println!(
        "| what, {REPEATS} x {OPERATIONS} times on loopback | without | intercepted \
         | added (median, quartiles) |"
    );
    println!("|---|---|---|---|");
    let rows = [
        ("TCP connection, cookie held: connect, write, read, close", "fast-open", "plain"),
        ("the same, and getpeername before the write", "fast-open", "with-peer"),
        ("UNIX connection, address of 110 bytes (not held)", "unix-full", "unix-full"),
        ("UNIX connection, address of other length (held)", "unix-short", "unix-short"),
    ];
    for (what, without, intercepted) in rows {
        let pairs: Vec<_> =
            (0..REPEATS).map(|_| (measured(without, false), measured(intercepted, true))).collect();
        let [alone, held, added] = [
            pairs.iter().map(|pair| pair.0).collect(),
            pairs.iter().map(|pair| pair.1).collect(),
            pairs.iter().map(|pair| pair.1 - pair.0).collect(),
        ]
        .map(quartiles);
        let [low, middle, high] = added;
        println!(
            "| {what} | {:.1} us | {:.1} us | {middle:.1} us ({low:.1} to {high:.1}) |",
            alone[1], held[1]
        );
    }
    println!("\nGoal: under {GOAL_US} us for a TCP connection.");
    std::fs::remove_dir_all(&folder).expect("it is there");
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[values.len() * quarter / 4])
}

fn folder() -> PathBuf {
    // The client, a child or grandchild of the process that made the folder, gets the path from the
    // environment.
    std::env::var_os("FASTOPEN_BENCH").map_or_else(
        || std::env::temp_dir().join(format!("fastopen-bench-{}", std::process::id())),
        PathBuf::from,
    )
}

fn unix_path(folder: &Path, kind: &str) -> PathBuf {
    let room = FULL_PATH - folder.as_os_str().len() - 1;
    folder.join("u".repeat(if kind == "unix-full" { room } else { 1 }))
}

fn serve(folder: &Path) {
    let listener = TcpListener::bind(ADDRESS).expect("the namespace is ours");
    tcp::set_fastopen_queue(&listener, 1000).expect("it listens");
    thread::spawn(move || listener.incoming().flatten().for_each(answer));
    for kind in ["unix-full", "unix-short"] {
        let listener = UnixListener::bind(unix_path(folder, kind)).expect("the folder is ours");
        thread::spawn(move || listener.incoming().flatten().for_each(answer));
    }
}

fn answer(mut stream: impl Read + Write) {
    let _ = stream.read(&mut [0; 64]);
    let _ = stream.write_all(b"answer");
}

/// Runs a client and returns the duration of one operation in microseconds.
fn measured(kind: &str, intercepted: bool) -> f64 {
    let own = std::env::current_exe().expect("this is a program");
    let mut command = if intercepted {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fastopen-intercept"));
        command.arg("--").arg(own);
        command
    } else {
        Command::new(own)
    };
    let done = command.args(["client", kind]).env("FASTOPEN_BENCH", folder()).output().expect("it runs");
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    output.trim().parse().unwrap_or_else(|_| panic!("{kind}: {}", String::from_utf8_lossy(&done.stderr)))
}

fn client(kind: &str) -> f64 {
    let operation = |_| match kind {
        "unix-full" | "unix-short" => {
            exchange(UnixStream::connect(unix_path(&folder(), kind)).expect("it listens"));
        }
        _ => exchange(connect(kind)),
    };
    (0..OPERATIONS / 10).for_each(operation);
    let started = Instant::now();
    (0..OPERATIONS).for_each(operation);
    started.elapsed().as_secs_f64() * 1e6 / f64::from(OPERATIONS)
}

/// Opens a connection. For `fast-open`, sets the socket option itself, as a program that supports Fast Open
/// does.
fn connect(kind: &str) -> TcpStream {
    let address: SocketAddr = ADDRESS.parse().expect("it is one");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("there are descriptors");
    if kind.starts_with("fast-open") {
        tcp::set_fastopen_connect(&socket).expect("the namespace is ours");
    }
    socket.connect(&address.into()).expect("it listens");
    if kind == "with-peer" {
        socket.peer_addr().expect("it is connected");
    }
    socket.into()
}

fn exchange(mut stream: impl Read + Write) {
    stream.write_all(b"request").expect("it is connected");
    let _ = stream.read(&mut [0; 64]).expect("it answers");
}
