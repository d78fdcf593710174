//! Tests that a client cannot affect the machine, on either engine. Each test checks a promise of
//! docs/security.md.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::chromium::browser;
use crate::support::{PROGRAM, Run, Temporary, image, job, network, page, root, run, run_command, with};
use crate::virtual_time::{exactly, on_each_engine};

/// Runs a script as the client on each engine. The script must exit with code 3. Returns the last line of its
/// standard error on each engine.
fn said(script: &str, argument: &str, isolate: bool) -> Vec<String> {
    let client =
        json!({"kind": "command", "command": ["bash", "-c", script, "client", argument], "isolate": isolate});
    let job = with(job(&page(&[root(100)]), &network(0), &["tcp"]), json!({"client": client}));
    let runs = on_each_engine(&job);
    let detail = |run: &Run| {
        let detail = run.load("tcp")["invalid"][0]["detail"].as_str().expect("the script fails").to_owned();
        detail.split_once("code 3: ").expect("it says something").1.to_owned()
    };
    runs.iter().map(detail).collect()
}

fn expect(script: &str, argument: &str, isolate: bool, expected: &str) {
    let script = format!(
        "{{ {script}; }} 2>/dev/null >\"$HOME/said\"; tr '\\n' ' ' <\"$HOME/said\" >&2; echo . >&2; exit 3"
    );
    for said in said(&script, argument, isolate) {
        assert_eq!(said.trim_end_matches('.').trim(), expected, "{script}");
    }
}

#[test]
fn no_mount_makes_the_machines_files_writable() {
    let folder = Temporary::folder();
    let script = r#"for how in remount,bind,rw remount,rw; do mount -o $how / && echo mounted; done
        mkdir "$HOME/m"; mount -t hostfs none "$HOME/m" -o / && echo hostfs
        mount -t proc none "$HOME/m" && echo proc; touch "$1/out" "$HOME/m$1/out"
        unshare -Urm sh -c 'mount -o remount,bind,rw / && echo nested; umount /proc/sys && echo unmounted
            mount -t hostfs none /home -o / && echo hostfs; touch "$1/out"' sh "$1"
        unshare -Urmpf sh -c 'mount -t proc none /home && echo proc'; echo over"#;
    for isolate in [false, true] {
        expect(script, folder.path(), isolate, "over");
        assert!(fs::read_dir(&folder.0).expect("it is there").next().is_none(), "a file was written");
    }
}

#[test]
fn a_client_has_no_capability_and_cannot_gain_one() {
    let script =
        "grep -cE '^Cap(Inh|Prm|Eff|Bnd|Amb):[[:space:]]*0+$|^NoNewPrivs:[[:space:]]*1$' /proc/self/status";
    for isolate in [false, true] {
        expect(script, "", isolate, "6");
    }
}

#[test]
fn a_client_is_an_ordinary_user_who_writes_to_its_own_folder_alone() {
    let script = r#"[ $(id -u) = 0 ] && echo root; touch /made /etc/made /usr/made /dev/made && echo made
        ls /made /etc/made /usr/made /dev/made; touch "$HOME/made" && ulimit -d"#;
    expect(script, "", true, "1310720");
}

#[test]
fn io_uring_is_refused_to_a_client() {
    if !PathBuf::from("/usr/bin/python3").is_file() {
        eprintln!("skipped: there is no python3");
        return;
    }
    // 425 is `io_uring_setup`. Outside the sandbox, this call would fail with EFAULT, or with ENOSYS if the
    // kernel has no io_uring.
    let script = r"/usr/bin/python3 -Ic 'import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(425, 1, None), ctypes.get_errno() == errno.EACCES)'";
    for isolate in [false, true] {
        expect(script, "", isolate, "-1 True");
    }
}

#[test]
fn system_calls_of_32_bits_are_refused_to_a_client() {
    if cfg!(not(target_arch = "x86_64")) || !PathBuf::from("/usr/bin/python3").is_file() {
        eprintln!("skipped: this is not x86-64, or there is no python3");
        return;
    }
    // The machine code: push rbx; ebx = AF_UNIX; ecx = SOCK_STREAM; edx = 0; eax = 359 (socket of i386); int
    // 0x80; pop rbx; ret. The sandbox refuses the call (13: EACCES). User-Mode Linux takes the number for a
    // call of x86-64, which does not exist (38: ENOSYS). On a kernel without 32-bit calls, the instruction
    // faults (139: SIGSEGV).
    let script = r#"said=$(/usr/bin/python3 -Ic 'import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("53bb01000000b90100000031d2b867010000cd805bc3"))
place = ctypes.addressof(ctypes.c_char.from_buffer(page))
print(ctypes.CFUNCTYPE(ctypes.c_int)(place)())' || echo $?)
        case $said in -13|-38|139) said=over; esac; echo $said"#;
    for isolate in [false, true] {
        expect(script, "", isolate, "over");
    }
}

#[test]
fn what_the_machines_root_may_do_by_files_of_the_kernel_is_not_open() {
    let script = r"for file in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /dev/kmsg /dev/vda /dev/tty
        do (exec 9>>$file) && echo $file; done; (exec 9</proc/1/environ) && echo environ
        grep root: /etc/shadow; echo over";
    for isolate in [false, true] {
        expect(script, "", isolate, "over");
    }
}

#[test]
fn an_isolated_command_sees_programs_and_no_file_of_a_user() {
    let folder = Temporary::folder();
    fs::write(folder.0.join("mine"), "mine").expect("there is room");
    let script = r#"cat "$1/mine"; ls -A /home /run /var/tmp | grep -v ':$' | grep .; ls /usr/bin/env"#;
    expect(script, folder.path(), true, "/usr/bin/env");
    expect(r#"cat "$1/mine""#, folder.path(), false, "mine");
}

#[test]
fn sockets_lead_to_the_world_alone() {
    if !PathBuf::from("/usr/bin/python3").is_file() {
        eprintln!("skipped: there is no python3");
        return;
    }
    let folder = Temporary::folder();
    let stream = UnixListener::bind(folder.0.join("stream")).expect("it is new");
    let datagram = UnixDatagram::bind(folder.0.join("datagram")).expect("it is new");
    (stream.set_nonblocking(true).and_then(|()| datagram.set_nonblocking(true))).expect("they are sockets");
    let script = r#"/usr/bin/python3 -Ic 'import socket as s, sys
def tried(name, call):
    try: call(); print(name)
    except OSError: pass
place = sys.argv[1]
tried("stream", lambda: s.socket(s.AF_UNIX).connect(place + "/stream"))
tried("datagram", lambda: s.socket(s.AF_UNIX, s.SOCK_DGRAM).sendto(b"x", place + "/datagram"))
tried("pair", lambda: s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)[0].sendto(b"x", place + "/datagram"))
tried("vsock", lambda: s.socket(s.AF_VSOCK))
tried("over", lambda: s.socketpair())' "$1""#;
    for isolate in [false, true] {
        expect(script, folder.path(), isolate, "over");
    }
    assert!(stream.accept().is_err() && datagram.recv(&mut [0]).is_err(), "somebody was heard");
}

#[test]
fn no_packet_of_a_client_leaves_the_world() {
    if !PathBuf::from("/usr/bin/python3").is_file() {
        eprintln!("skipped: there is no python3");
        return;
    }
    let socket = UdpSocket::bind("0.0.0.0:0").expect("there are ports");
    let listener = TcpListener::bind("0.0.0.0:0").expect("there are ports");
    (socket.set_nonblocking(true).and_then(|()| listener.set_nonblocking(true))).expect("they are sockets");
    let port = |address: std::io::Result<std::net::SocketAddr>| address.expect("it is bound").port();
    let ports = format!("{} {}", port(socket.local_addr()), port(listener.local_addr()));
    let script = r#"/usr/bin/python3 -Ic 'import socket as s, sys
def tried(name, call):
    try: call(); print(name)
    except OSError: pass
udp, tcp = map(int, sys.argv[1].split())
tried("icmp", lambda: s.socket(s.AF_INET, s.SOCK_RAW, s.IPPROTO_ICMP))
tried("ping", lambda: s.socket(s.AF_INET, s.SOCK_DGRAM, s.IPPROTO_ICMP))
tried("packet", lambda: s.socket(s.AF_PACKET, s.SOCK_RAW))
for place in "127.0.0.1", "127.0.0.53", "1.1.1.1", "169.254.169.254", "192.168.0.1":
    for port in udp, 53:
        try: s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b"x", (place, port))
        except OSError: pass
    def call():
        with s.socket() as client:
            client.settimeout(0.2); client.connect((place, tcp))
    tried(place, call)
print("over")' "$1""#;
    expect(script, &ports, false, "over");
    assert!(socket.recv(&mut [0]).is_err() && listener.accept().is_err(), "somebody was heard");
}

#[test]
fn a_lower_limit_of_the_user_s_own_stays() {
    let client = json!({"kind": "command", "command": ["bash", "-c", "ulimit -u >&2; exit 3"]});
    let job = with(job(&page(&[root(100)]), &network(0), &["tcp"]), json!({"client": client}));
    let limited = r#"ulimit -u 900; exec "$1""#;
    let mut command = Command::new("bash");
    let run = run_command(command.args(["-c", limited, "bash", PROGRAM]), job.to_string().as_bytes());
    assert_eq!(run.load("tcp")["invalid"][0]["detail"], "bash ended with exit code 3: 900");
}

#[test]
fn what_a_client_writes_is_limited() {
    let script = r#"dd if=/dev/zero of="$HOME/big" bs=1M count=4096
        [ $(stat -c %s "$HOME/big") -lt 4000000000 ] && rm "$HOME/big" && echo over"#;
    expect(script, "", true, "over");
}

#[test]
fn the_processes_of_a_world_are_limited_whoever_starts_them() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("it is Linux");
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(14)) {
        eprintln!("skipped: Linux {release} has one limit for all PID namespaces");
        return;
    }
    expect("[ $(cat /proc/sys/kernel/pid_max) -le 4096 ] && echo over", "", false, "over");
}

#[test]
fn a_client_whose_processes_take_too_much_memory_together_ends_its_load_with_the_reason() {
    let memory = fs::read_to_string("/proc/meminfo").expect("it is Linux");
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = available.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    if kibibytes.unwrap_or(0u64) < 4 << 20 {
        eprintln!("skipped: there are less than 4 GiB of memory");
        return;
    }
    let holding = "import time; held = b'x' * (900 << 20); time.sleep(60)";
    let script = format!("for i in 1 2 3; do python3 -c \"{holding}\" & done; wait");
    let client = json!({"kind": "command", "command": ["bash", "-c", script]});
    let job = with(job(&page(&[root(100)]), &network(0), &["tcp"]), json!({"client": client}));
    let run = run(&job);
    let reason = &run.load("tcp")["invalid"][0]["detail"];
    assert_eq!(reason, "out of memory: client and server programs used more than 2 GiB", "{run}");
}

fn load_in_chromium(html: &str) -> Option<Value> {
    load_on(|job| Some(run(job)), html)
}

/// Loads a page with this recorded HTML in Chromium on an engine, and returns the load's record. Returns
/// `None` if Chromium or the engine is not installed.
fn load_on(engine: impl Fn(&Value) -> Option<Run>, html: &str) -> Option<Value> {
    if !browser() {
        return None;
    }
    let file = Temporary::file(html);
    let root = with(root(html.len() as u64), json!({"mime": "text/html", "body_offset": 0}));
    let origins = json!({"bodies": "recorded", "bodies_file": file.0});
    let changes = json!({"client": {"kind": "chromium"}, "origins": origins});
    let run = engine(&with(job(&page(&[root]), &network(1000), &["tcp"]), changes))?;
    Some(run.load("tcp").clone())
}

#[test]
fn no_packet_of_a_page_leaves_the_world() {
    if !browser() {
        return;
    }
    let socket = UdpSocket::bind("0.0.0.0:0").expect("there are ports");
    let listener = TcpListener::bind("0.0.0.0:0").expect("there are ports");
    (socket.set_nonblocking(true).and_then(|()| listener.set_nonblocking(true))).expect("they are sockets");
    let port = |address: std::io::Result<std::net::SocketAddr>| address.expect("it is bound").port();
    let (udp, tcp) = (port(socket.local_addr()), port(listener.local_addr()));
    // The page looks up names, sends STUN to the addresses of a name server and of the machine, and calls
    // fetch, sendBeacon and WebSocket. The late image keeps the load running until all this has happened.
    let html = format!(
        "<!doctype html><link rel=dns-prefetch href=//looked.up.test><script>
        const urls = ['127.0.0.1:{udp}', '10.0.0.1:{udp}', '1.1.1.1:53', 'stun.test:53']
            .map(one => 'stun:' + one);
        const peer = new RTCPeerConnection({{iceServers: [{{urls}}]}}); peer.createDataChannel('x');
        peer.createOffer().then(offer => peer.setLocalDescription(offer));
        fetch('http://127.0.0.1:{tcp}/').catch(() => 0); fetch('http://1.1.1.1:53/').catch(() => 0);
        navigator.sendBeacon('http://looked.up.test/', 'x'); new WebSocket('ws://127.0.0.1:{tcp}/');
        </script><img src=/late>"
    );
    let file = Temporary::file(&html);
    let root = with(root(html.len() as u64), json!({"mime": "text/html", "body_offset": 0}));
    let late = with(image("http://a.test/late", 43), json!({"server_think_us": 2_000_000}));
    let changes = json!({
        "client": {"kind": "chromium"},
        "origins": {"bodies": "recorded", "bodies_file": file.0},
    });
    let run = run(&with(job(&page(&[root, late]), &network(1000), &["tcp"]), changes));
    let connections = run.load("tcp")["connections"].as_array().map_or(0, Vec::len);
    assert!(connections > 0, "{run}");
    assert!(socket.recv(&mut [0]).is_err() && listener.accept().is_err(), "somebody was heard");
}

#[test]
fn a_page_in_chromium_cannot_take_more_memory_than_a_process_may_have() {
    // An allocation beyond the limit throws an error in the script, or ends the page.
    let html = "<!doctype html><script>
        try { for (const held = []; held.length < 3000;) held.push(new Uint8Array(1 << 20).fill(1)); }
        catch (error) { location = 'http://refused.test/'; }</script>";
    let Some(load) = load_in_chromium(html) else { return };
    let detail = load["invalid"][0]["detail"].as_str().unwrap_or_default();
    let reasons =
        ["the page navigated to http://refused.test/", "the page crashed in the browser", "out of memory"];
    assert!(reasons.iter().any(|reason| detail.starts_with(reason)), "{detail}: {load:#}");
}

#[test]
fn dialogs_are_answered_at_once_and_counted() {
    let Some(load) = load_in_chromium("<!doctype html><script>alert(1); confirm(2); prompt(3)</script>")
    else {
        return;
    };
    assert_eq!((&load["valid"], &load["browser"]["dialogs"]), (&json!(true), &json!(3)), "{load:#}");
}

#[test]
fn a_page_that_misbehaves_ends_its_load_with_the_reason() {
    for (script, reason) in [
        ("location.reload()", "the page navigated to http://a.test/"),
        ("location = 'http://other.test/'", "the page navigated to http://other.test/"),
        ("location = 'about:blank'", "the page navigated to about:blank"),
        ("window.open('http://a.test/other')", "the page opened a window with http://a.test/other"),
        ("for (let i = 0; i < 2000; i++) new Image().src = '/' + i", "the page made more than 1001 requests"),
        ("for (;;);", "the page did not respond for 8 s"),
    ] {
        let Some(load) = load_in_chromium(&format!("<!doctype html><script>{script}</script>")) else {
            return;
        };
        assert_eq!(load["invalid"][0]["detail"], reason, "{script}");
    }
}

#[test]
fn pages_that_misbehave_in_virtual_time_are_told_alike() {
    let load = |script| load_on(exactly, &format!("<!doctype html><script>{script}</script>"));
    let Some(dialogs) = load("alert(1); confirm(2)") else { return };
    assert_eq!((&dialogs["valid"], &dialogs["browser"]["dialogs"]), (&json!(true), &json!(2)), "{dialogs:#}");
    let gone = load("location = 'http://other.test/'").expect("as before");
    assert_eq!(gone["invalid"][0]["detail"], "the page navigated to http://other.test/", "{gone:#}");
}
