//! Tests namespaces with the real kernel: links, routes, packets, cookies, settings and files.
//!
//! Each test runs itself again in a separate process, because only a single-threaded process can create a
//! user namespace.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind::PermissionDenied;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;
use std::time::Duration;

use fastopen_netns::clock::{Clocks, monotonic_ns, realtime_ns};
use fastopen_netns::counters;
use fastopen_netns::namespace::{self, NetNs};
use fastopen_netns::packet::{ETHERNET_HEADER, PacketSocket, Tap};
use fastopen_netns::poll::{Waker, wait_readable};
use fastopen_netns::route::{Route, RouteSocket, VethEnd, disable_offloads};
use fastopen_netns::sandbox::View;
use fastopen_netns::{Errno, Operation, process, sysctl, tcp, tcp_metrics};

/// Environment variable with the name of the test to run inside the sandbox.
const INSIDE: &str = "FASTOPEN_TEST_INSIDE";
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 2, 0, 1));
const NEAR6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1));
const FAR6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 2, 0, 0, 0, 1));
/// Further addresses in the networks of [`FAR`] and [`FAR6`] that are not assigned to any interface.
const OTHERS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 2, 77, 78)), IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 2, 0, 0, 77, 78))];

/// Runs `inside` in a separate process with its own user, mount and network namespaces. `name` is the name
/// of the calling test.
fn in_sandbox(name: &str, inside: fn()) {
    if std::env::var(INSIDE).is_ok_and(|wanted| wanted == name) {
        inside();
        return;
    }
    let program = std::env::current_exe().expect("this is a program");
    let done = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "--net"])
        .arg(program)
        .args(["--exact", "--nocapture", name])
        .env(INSIDE, name)
        .output()
        .expect("unshare (util-linux) is installed");
    let output = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(done.status.success() && output.contains("1 passed"), "{output}");
}

/// Returns two namespaces, connected by a veth pair (`eth0` in each). Each namespace has two networks, and
/// every address in them is local to that namespace.
fn two_hosts() -> (NetNs, NetNs) {
    let (near, far) = (NetNs::create().expect("near"), NetNs::create().expect("far"));
    let end = |namespace| VethEnd { name: "eth0", mac: MAC, namespace };
    RouteSocket::open()
        .and_then(|mut routes| routes.add_veth(&end(&near), &end(&far), 1400))
        .expect("a veth pair");
    for (namespace, own, other, own6, other6) in
        [(&near, NEAR, FAR, NEAR6, FAR6), (&far, FAR, NEAR, FAR6, NEAR6)]
    {
        namespace
            .run(|| {
                disable_offloads("eth0")?;
                let mut routes = RouteSocket::open()?;
                routes.bring_up("lo")?;
                routes.bring_up("eth0")?;
                routes.add_local_network(network(own))?;
                routes.replace_route(&route(other, own, None))?;
                sysctl::set("net.ipv6.ip_nonlocal_bind", "1")?;
                routes.add_address("eth0", own6)?;
                routes.add_local_network(network(own6))?;
                routes.replace_route(&route(other6, own6, None))
            })
            .expect("an end is set up");
    }
    for end in [&near, &far] {
        end.run(|| RouteSocket::open()?.wait_until_up("eth0")).expect("both ends are up");
    }
    (near, far)
}

fn network(address: IpAddr) -> (IpAddr, u8) {
    match address {
        IpAddr::V4(address) => (IpAddr::from((address.to_bits() & 0xffff_0000).to_be_bytes()), 16),
        IpAddr::V6(address) => (Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(), 64),
    }
}

fn route(to: IpAddr, source: IpAddr, congestion_control: Option<&str>) -> Route<'_> {
    Route {
        destination: network(to),
        interface: "eth0",
        source: Some(source),
        congestion_control,
        initial_window: Some(7),
    }
}

/// Connects from `near` to an address of `far`. Returns both ends of the connection.
fn connect(near: &NetNs, far: &NetNs, address: IpAddr) -> (TcpStream, TcpStream) {
    let address = SocketAddr::from((address, 80));
    let listener = far.run(|| Ok(TcpListener::bind(address).expect("it is far's own"))).expect("far");
    let stream = near.run(|| Ok(TcpStream::connect(address).expect("it listens"))).expect("near");
    (stream, listener.accept().expect("it connected").0)
}

#[test]
fn every_address_of_an_owned_network_can_be_reached_over_a_veth_pair() {
    in_sandbox("every_address_of_an_owned_network_can_be_reached_over_a_veth_pair", || {
        let (near, far) = two_hosts();
        for (address, own) in OTHERS.into_iter().zip([NEAR, NEAR6]) {
            let address: SocketAddr = (address, 80).into();
            let listener = far.run(|| Ok(TcpListener::bind(address).expect("it is far's own"))).expect("far");
            near.run(|| Ok(TcpStream::connect(address).expect("it listens"))).expect("near");
            assert_eq!(listener.accept().expect("it connected").1.ip(), own);
        }
    });
}

#[test]
fn a_route_sets_congestion_control_initial_window_and_source() {
    in_sandbox("a_route_sets_congestion_control_initial_window_and_source", || {
        let (near, far) = two_hosts();
        let source6 = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 5, 6).into();
        near.run(|| RouteSocket::open()?.add_address("eth0", source6)).expect("it is a new address");
        for (source, own, address) in [(Ipv4Addr::new(10, 1, 5, 6).into(), NEAR, FAR), (source6, NEAR6, FAR6)]
        {
            let reno = route(address, source, Some("reno"));
            near.run(|| RouteSocket::open()?.replace_route(&reno)).expect("every kernel has reno");
            let (stream, accepted) = connect(&near, &far, address);
            assert_eq!(tcp::congestion_control(&stream).expect("it is TCP"), "reno");
            assert_eq!(tcp::info(&stream).expect("it is TCP").congestion_window, 7);
            assert_eq!(accepted.peer_addr().expect("it is connected").ip(), source);
            let nonesuch = route(address, own, Some("nonesuch"));
            let refused = near.run(|| RouteSocket::open()?.replace_route(&nonesuch));
            let error = refused.expect_err("no kernel has it");
            assert_eq!(error.errno(), Some(Errno::EINVAL));
            let Operation::AddRoute { congestion_control, .. } = &error.operation else { panic!("{error}") };
            assert_eq!(congestion_control.as_deref(), Some("nonesuch"));
        }
    });
}

#[test]
fn packets_to_a_silent_part_of_a_network_vanish() {
    in_sandbox("packets_to_a_silent_part_of_a_network_vanish", || {
        let (near, far) = two_hosts();
        for address in OTHERS {
            let (_, length) = network(address);
            let part = (address, if length == 16 { 32 } else { 128 });
            let try_to_connect = || {
                let address = SocketAddr::from((address, 9));
                near.run(|| Ok(TcpStream::connect_timeout(&address, Duration::from_millis(200))))
                    .expect("near")
            };
            let refused = try_to_connect().expect_err("nobody listens").kind();
            assert_eq!(refused, std::io::ErrorKind::ConnectionRefused);
            for (silent, kind) in [(true, std::io::ErrorKind::TimedOut), (false, refused)] {
                far.run(|| RouteSocket::open()?.set_silent(part, silent)).expect("it is a part");
                assert_eq!(try_to_connect().expect_err("nobody listens").kind(), kind);
            }
        }
    });
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    in_sandbox("an_interface_that_is_not_there_is_named", || {
        let mut routes = RouteSocket::open().expect("every kernel routes");
        for error in [
            routes.bring_up("eth9").expect_err("no such interface"),
            disable_offloads("eth9").expect_err("no such interface"),
            PacketSocket::open("eth9", 32, 0x0800).map(drop).expect_err("no such interface"),
        ] {
            assert!(error.to_string().contains("eth9"), "{error}");
        }
    });
}

#[test]
fn namespaces_have_settings_and_counters_of_their_own() {
    in_sandbox("namespaces_have_settings_and_counters_of_their_own", || {
        const NAME: &str = "net.ipv4.tcp_fastopen";
        let (one, other) = (NetNs::create().expect("one"), NetNs::create().expect("other"));
        one.run(|| sysctl::set(NAME, "3")).expect("it may be set");
        other.run(|| sysctl::set(NAME, "0")).expect("it may be set");
        assert_eq!(one.run(|| sysctl::get(NAME)).expect("it is there"), "3");
        assert_eq!(other.run(|| sysctl::get(NAME)).expect("it is there"), "0");
        let error = one.run(|| sysctl::set("net.ipv4.nonesuch", "1")).expect_err("no kernel has it");
        assert!(error.to_string().contains("setting net.ipv4.nonesuch to 1"), "{error}");
        let range = one.run(|| {
            sysctl::set("net.ipv4.ip_local_port_range", "20000 30000")?;
            sysctl::get("net.ipv4.ip_local_port_range")
        });
        assert_eq!(range.expect("it may be set"), "20000 30000");

        let (near, far) = two_hosts();
        let before = far.run(counters::read).expect("/proc is mounted");
        drop(connect(&near, &far, FAR));
        let after = far.run(counters::read).expect("/proc is mounted");
        assert_eq!(counters::growth(&before, &after)["PassiveOpens"], 1);
        assert_eq!(one.run(counters::read).expect("/proc is mounted")["PassiveOpens"], 0);
    });
}

#[test]
fn a_cookie_is_found_by_its_addresses_and_belongs_to_the_namespace() {
    in_sandbox("a_cookie_is_found_by_its_addresses_and_belongs_to_the_namespace", || {
        let (near, far) = two_hosts();
        near.run(|| sysctl::set("net.ipv4.tcp_fastopen", "1")).expect("it may be set");
        far.run(|| sysctl::set("net.ipv4.tcp_fastopen", "2")).expect("it may be set");
        let cookie = |of: &NetNs, client, server| {
            of.run(|| tcp_metrics::Table::open()?.cookie(client, server)).expect("the family is there")
        };
        for (own, other) in [(NEAR, FAR), (NEAR6, FAR6)] {
            assert_eq!(cookie(&near, own, other), None);
            let address = SocketAddr::from((other, 80));
            let listener = far.run(|| Ok(TcpListener::bind(address).expect("it is far's own"))).expect("far");
            tcp::set_fastopen_queue(&listener, 16).expect("it listens");
            let with_data = || {
                let mut stream = near
                    .run(|| {
                        let socket = fastopen_socket(address);
                        socket.connect(&address.into()).expect("it listens");
                        Ok(TcpStream::from(socket))
                    })
                    .expect("near");
                stream.write_all(b"data").expect("it is connected, or about to be");
                let (mut accepted, _) = listener.accept().expect("it connected");
                accepted.read_exact(&mut [0; 4]).expect("the data comes");
                accepted.write_all(b"answer").expect("it is connected");
                stream.read_exact(&mut [0; 6]).expect("the answer comes");
                let ends =
                    [&stream, &accepted].map(|end| tcp::info(end).expect("it is TCP").syn_data_acked());
                assert_eq!(ends[0], ends[1]);
                ends[0]
            };
            assert!(!with_data(), "the first connection asks for the cookie");
            let held = cookie(&near, own, other).expect("it came with the first answer");
            assert_eq!(held.len(), 8);
            assert_eq!(cookie(&near, other, own), None);
            assert!(with_data(), "the second one uses it");
            assert_eq!(cookie(&far, own, other), None);
        }
    });
}

/// Returns a TCP socket for connecting to `to`, with the option `TCP_FASTOPEN_CONNECT` set.
fn fastopen_socket(to: SocketAddr) -> socket2::Socket {
    let domain = socket2::Domain::for_address(to);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).expect("a socket");
    tcp::set_fastopen_connect(&socket).expect("the namespace allows it");
    socket
}

#[test]
fn a_packet_port_sees_what_arrives_with_its_time_and_sends_what_it_is_given() {
    in_sandbox("a_packet_port_sees_what_arrives_with_its_time_and_sends_what_it_is_given", || {
        let (near, far) = two_hosts();
        let mut port =
            far.run(|| PacketSocket::open("eth0", 32, 0x0800)).expect("packet sockets are allowed");
        assert!(!port.is_readable());
        let begun = monotonic_ns();
        let sender = near.run(|| Ok(UdpSocket::bind((NEAR, 9)).expect("it is near's own"))).expect("near");
        for number in 0..3 {
            sender.send_to(&[number; 100], (FAR, 9)).expect("it is sent");
        }
        let mut frames = VecDeque::new();
        while frames.len() < 3 {
            wait_readable(&[port.as_fd()], Some(10_000_000_000)).expect("it can be waited for");
            assert!(port.is_readable(), "the frames come");
            port.receive(2, |at, frame| {
                assert!((begun..=monotonic_ns()).contains(&at), "stamped {at}, begun {begun}");
                assert_eq!(frame.len(), ETHERNET_HEADER + 20 + 8 + 100);
                frames.push_back(frame.to_vec());
            });
        }
        assert_eq!(
            frames.iter().map(|frame| *frame.last().expect("not empty")).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert_eq!(port.take_overruns().expect("it counts"), 0);

        // Send the frames back: swapping the addresses does not change the checksums.
        let receiver = sender;
        for frame in &mut frames {
            let addresses = ETHERNET_HEADER + 12;
            let [from, to] = [addresses, addresses + 4].map(|at| frame[at..at + 4].to_vec());
            frame[addresses..addresses + 8].copy_from_slice(&[to, from].concat());
        }
        port.send(&mut frames).expect("there is room");
        assert_eq!(frames.len(), 0);
        receiver.set_read_timeout(Some(Duration::from_secs(10))).expect("it can have one");
        for number in 0..3 {
            let mut datagram = [0; 200];
            assert_eq!(receiver.recv(&mut datagram).expect("it arrives"), 100);
            assert_eq!(datagram[0], number);
        }
    });
}

#[test]
fn frames_that_find_no_room_in_the_ring_are_counted() {
    in_sandbox("frames_that_find_no_room_in_the_ring_are_counted", || {
        let (near, far) = two_hosts();
        let mut port =
            far.run(|| PacketSocket::open("eth0", 32, 0x0800)).expect("packet sockets are allowed");
        let sender = near.run(|| Ok(UdpSocket::bind((NEAR, 9)).expect("it is near's own"))).expect("near");
        for _ in 0..40 {
            sender.send_to(&[0; 10], (FAR, 9)).expect("it is sent");
        }
        let (mut received, mut lost) = (0, 0);
        while received + lost < 40 {
            received += port.receive(usize::MAX, |_, _| ());
            lost += port.take_overruns().expect("it counts") as usize;
        }
        assert_eq!((received, lost), (32, 8));
    });
}

#[test]
fn a_tap_keeps_what_an_interface_sends_and_receives_until_it_is_full() {
    in_sandbox("a_tap_keeps_what_an_interface_sends_and_receives_until_it_is_full", || {
        let (near, far) = two_hosts();
        let mut taps = [&near, &far].map(|end| end.run(|| Tap::open("eth0", 32)).expect("taps are allowed"));
        let sender = near.run(|| Ok(UdpSocket::bind((NEAR, 9)).expect("it is near's own"))).expect("near");
        // Without a receiver, ICMP errors would come back.
        let _receiver = far.run(|| Ok(UdpSocket::bind((FAR, 9)).expect("it is far's own"))).expect("far");
        let send = |numbers: Range<u8>| {
            for number in numbers {
                sender.send_to(&[number; 100], (FAR, 9)).expect("it is sent");
            }
        };
        send(0..1);
        taps.iter_mut().for_each(Tap::clear);
        let begun = realtime_ns();
        send(1..4);
        let until = realtime_ns();
        send(4..5);
        let [out, back] = taps.each_mut().map(|tap| tap.take(until).expect("it counts").0);
        for (frames, outgoing) in [(&out, true), (&back, false)] {
            let numbers: Vec<_> =
                frames.iter().map(|frame| *frame.bytes.last().expect("not empty")).collect();
            assert_eq!(numbers, [1, 2, 3]);
            assert!(frames.iter().all(|frame| frame.outgoing == outgoing));
            assert!(frames.iter().all(|frame| (begun..=until).contains(&frame.unix_ns)));
            assert!(frames.iter().all(|frame| frame.bytes.len() == ETHERNET_HEADER + 20 + 8 + 100));
        }
        send(0..40);
        let [out, back] = taps.each_mut().map(|tap| tap.take(u64::MAX).expect("it counts"));
        assert_eq!([(out.0.len(), out.1), (back.0.len(), back.1)], [(32, 8); 2]);
    });
}

#[test]
fn files_are_overlaid_for_this_mount_namespace_only_and_come_back() {
    in_sandbox("files_are_overlaid_for_this_mount_namespace_only_and_come_back", || {
        let path = "/etc/passwd";
        let seen = || fs::read_to_string(path).expect("it is there");
        let before = seen();
        namespace::overlay_files(&[(path, "over"), ("/nowhere/file", "skipped")])
            .expect("mounts are allowed");
        assert_eq!(seen(), "over");
        namespace::overlay_files(&[(path, "twice")]).expect("mounts are allowed");
        assert_eq!(seen(), "twice");
        namespace::remove_overlay(path).expect("it is mounted");
        assert_eq!(seen(), "over");
        namespace::remove_overlay(path).expect("it is mounted");
        assert_eq!(seen(), before);
        namespace::remove_overlay(path).expect_err("nothing is mounted there");
    });
}

#[test]
fn landlock_alone_keeps_a_thread_and_its_children_to_their_files_and_from_processes_outside() {
    // The folder is not in the checkout, because the checkout may be part of the view, such as below /opt.
    let folder = std::env::temp_dir().join(format!("fastopen-landlock-{}", std::process::id()));
    let own = folder.join("own");
    fs::create_dir_all(&own).expect("there is room");
    let private = folder.join("private");
    fs::write(&private, "private").expect("there is room");
    let mut outside = Command::new("sleep").arg("60").spawn().expect("every machine has it");
    let pid = outside.id();
    let (view, made) = (View { writable: vec![own.clone()], ..View::default() }, own.join("made"));
    let restricted = thread::spawn(move || {
        let can = view.restrict(false).expect("it is asked for what the kernel has");
        if can {
            let denied = |result: io::Result<()>| result.is_err_and(|error| error.kind() == PermissionDenied);
            assert!(denied(fs::read(&private).map(drop)), "it was read");
            assert!(denied(fs::write(&private, "changed")), "it was written");
            assert!(denied(fs::write(private.with_file_name("made"), "")), "it was made");
            fs::write(&made, "own").expect("its own folder is writable");
            // Landlock restricts signals from Linux 6.12 on.
            let script = format!(
                "cat {} && echo read; kill -0 {pid} && echo signalled; cat {}",
                private.display(),
                made.display()
            );
            let said =
                Command::new("sh").args(["-c", &script]).output().expect("programs are in the view").stdout;
            let said = String::from_utf8_lossy(&said);
            assert_eq!(said, if has_scopes() { "own" } else { "signalled\nown" });
        }
        can
    });
    let restricted = restricted.join();
    outside.kill().and_then(|()| outside.wait()).expect("it runs");
    fs::remove_dir_all(&folder).expect("it is there");
    if !restricted.expect("nothing was allowed that is not meant to be") {
        eprintln!("skipped: this kernel has no Landlock");
    }
}

/// Returns true for Linux 6.12 or later, where Landlock can restrict signals (scopes).
fn has_scopes() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("it is Linux");
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

#[test]
fn what_was_stamped_before_the_clock_was_set_is_never_in_the_future() {
    const HOUR: u64 = 3600 * 1_000_000_000;
    let clocks = Clocks { monotonic: 100 * HOUR, realtime: 500 * HOUR };
    let now = || 100 * HOUR + 7;
    assert_eq!(clocks.monotonic_of(500 * HOUR - 5, now), 100 * HOUR - 5);
    assert_eq!(clocks.monotonic_of(500 * HOUR + 3, now), 100 * HOUR + 3);
    // The frame has a stamp from before the clock was set. If the clock was set back by an hour, the stamp
    // lies in the future; if forward, the frame looks an hour old.
    assert_eq!(clocks.monotonic_of(501 * HOUR, now), 100 * HOUR + 7);
    assert_eq!(clocks.monotonic_of(499 * HOUR, now), 99 * HOUR);
}

#[test]
fn a_waker_ends_a_wait_until_it_is_cleared() {
    let waker = Waker::new().expect("there are descriptors");
    waker.wake();
    waker.wake();
    wait_readable(&[waker.as_fd()], None).expect("it is readable at once");
    waker.clear();
    let begun = monotonic_ns();
    wait_readable(&[waker.as_fd()], Some(5_000_000)).expect("it can be waited for");
    assert!(monotonic_ns() - begun >= 5_000_000);
}

#[test]
fn a_process_with_other_threads_does_not_fork() {
    let refused = std::panic::catch_unwind(|| process::run_in_child(|| 0));
    assert!(refused.is_err(), "a test runs on a thread beside the main one");
}
