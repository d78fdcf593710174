//! Tests of worlds on a User-Mode Linux kernel in virtual time, which are skipped if no such kernel is
//! installed, and of the program's errors when a failing script runs instead of a kernel.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::processes::{all_processes, children, family, is_alive, signal, wait_until};
use crate::support::{
    PROGRAM, Run, Temporary, arms, finish, grown, image, job, list, network, number, page, plt_ms, rate,
    request, root, run, run_command, start, with, with_syn_data,
};

/// Returns the path and arguments of the kernel that `FASTOPEN_KERNEL` names, or else of the kernel that was
/// installed last for this user. Returns `None` if there is no kernel with a readable manifest.
pub(crate) fn kernel() -> Option<(PathBuf, Vec<String>)> {
    let installed = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
        let folders = fs::read_dir(cache.join("fastopen/kernels")).ok()?.flatten();
        let kernels = folders.map(|folder| folder.path().join("linux"));
        kernels.max_by_key(|kernel| fs::metadata(kernel).and_then(|metadata| metadata.modified()).ok())
    };
    let kernel = std::env::var_os("FASTOPEN_KERNEL").map(PathBuf::from).or_else(installed)?;
    let manifest: Value =
        serde_json::from_slice(&fs::read(kernel.with_file_name("manifest.json")).ok()?).ok()?;
    let arguments = list(&manifest["arguments"]).iter().filter_map(|one| one.as_str().map(str::to_owned));
    Some((kernel, arguments.collect()))
}

/// Returns the command that runs the program on the virtual engine. If no kernel is installed, prints that
/// the test is skipped and returns `None`.
pub(crate) fn in_virtual_time() -> Option<Command> {
    let Some((kernel, arguments)) = kernel() else {
        eprintln!("skipped: no kernel of the virtual engine is installed (fastopen kernel build)");
        return None;
    };
    Some(on(&kernel, &arguments))
}

/// Runs the job in virtual time. Returns `None` if no kernel of the virtual engine is installed.
pub(crate) fn exactly(job: &Value) -> Option<Run> {
    Some(run_command(&mut in_virtual_time()?, job.to_string().as_bytes()))
}

/// Runs the job on the host engine, and on the virtual engine if a kernel is installed.
pub(crate) fn on_each_engine(job: &Value) -> Vec<Run> {
    [Some(run(job)), exactly(job)].into_iter().flatten().collect()
}

fn on(kernel: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("--kernel").arg(kernel).args(arguments);
    command
}

/// Runs the command with these jobs on its standard input, and returns what it prints. Panics unless the
/// command exits with code 0.
pub(crate) fn written(mut command: Command, jobs: &str) -> String {
    let (code, output) = finish(start(&mut command, jobs.as_bytes()));
    assert_eq!(code, Some(0), "{output:.2000}");
    output
}

/// Returns a job whose page has a redirect, think times and processing, over a link that loses packets.
fn eventful(id: &str, seed: u64) -> Value {
    let redirect = with(root(0), json!({"status": 301, "redirect_to": "http://b.test/"}));
    let document = json!({"url": "http://b.test/", "type": "document", "body_bytes": 40_000,
        "server_think_us": 12_345, "initiator": 0});
    let images = (0..12).map(|number| {
        let host = ["b", "c", "d"][number % 3];
        let image = image(&format!("http://{host}.test/{number}"), 3000 + 700 * number as u64);
        with(
            image,
            json!({"initiator": 1, "initiator_at_bytes": 3000 * number, "processing_us": 321 * number}),
        )
    });
    let resources: Vec<_> = [redirect, document].into_iter().chain(images).collect();
    let way = |bit_per_s| with(rate(bit_per_s), json!({"loss": 0.02}));
    let network = with(network(40_000), json!({"down": way(4_000_000), "up": way(256_000)}));
    with(job(&page(&resources), &network, &["tcp", "cold", "warm"]), json!({"id": id, "seed": seed}))
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_program_takes_none_of_the_system_calls_of_a_load_from_libc() {
    let listed = Command::new("nm").args(["--dynamic", "--undefined-only", PROGRAM]).output();
    let Ok(listed) = listed else {
        eprintln!("skipped: nm is not installed (binutils)");
        return;
    };
    let names = String::from_utf8(listed.stdout).expect("symbols are text");
    let taken: Vec<_> =
        names.lines().filter_map(|line| line.split_whitespace().last()?.split('@').next()).collect();
    assert!(taken.contains(&"getauxval"), "libc's functions are listed: {names}");
    for own in
        ["accept4", "close", "epoll_ctl", "epoll_wait", "recv", "recvmmsg", "sendmmsg", "syscall", "write"]
    {
        assert!(!taken.contains(&own), "{own} is libc's");
    }
}

/// Without the kernel argument `direct-init`, the program runs in its own process, as on machines where the
/// kernel's process cannot run the program.
#[test]
fn the_bytes_do_not_depend_on_the_process_that_the_program_runs_in() {
    let Some((kernel, arguments)) = kernel() else { return };
    let own_process: Vec<_> = arguments.iter().filter(|one| *one != "direct-init").cloned().collect();
    assert_ne!(own_process, arguments, "the kernel can run it in its own");
    let job = eventful("eventful", 11).to_string();
    assert_eq!(written(on(&kernel, &arguments), &job), written(on(&kernel, &own_process), &job));
}

#[test]
fn the_same_job_gives_the_same_bytes() {
    let Some(first) = in_virtual_time() else { return };
    let job = eventful("eventful", 11).to_string();
    let once = written(first, &job);
    let again = written(in_virtual_time().expect("it was there a moment ago"), &job);
    assert_eq!(once, again);
    let records: Vec<Value> = once.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let loads: Vec<_> = records.iter().filter(|record| record["type"] == "load").collect();
    let lost = |load: &&&Value| {
        number(&load["link"]["down"]["dropped_loss"]) + number(&load["link"]["up"]["dropped_loss"]) > 0
    };
    assert_eq!(loads.len(), 3);
    assert!(loads.iter().filter(lost).count() > 0, "nothing was lost, so this proved little");
    for load in loads {
        assert_eq!(load["valid"], true, "{:#}", load["invalid"]);
        assert_eq!(request(load, 0)["status"], 301);
        assert_eq!(list(&load["requests"]).len(), 14);
    }
}

#[test]
fn what_was_done_before_in_the_same_kernel_changes_nothing() {
    let Some(command) = in_virtual_time() else { return };
    let (one, other) = (eventful("one", 11), eventful("other", 12));
    let both = written(command, &format!("{one}{other}"));
    let alone = written(in_virtual_time().expect("it was there a moment ago"), &other.to_string());
    assert!(both.ends_with(&alone), "the second job of a kernel differs from the first of another");
    let seeded: Vec<_> = both.lines().filter(|line| line.starts_with(r#"{"type":"load""#)).collect();
    assert_ne!(seeded[0].replace("one", ""), seeded[3].replace("other", ""), "the seed decides what is lost");
}

#[test]
fn a_load_does_not_depend_on_the_loads_before_it() {
    // With the second network, segments of the world's own measurements can arrive during the first load.
    let mut timers = 0;
    for (rtt_us, down, up) in [(40_000, 4_000_000, 256_000), (100_000, 214_000_000, 24_000_000)] {
        let way = |bit_per_s| with(rate(bit_per_s), json!({"loss": 0.02}));
        let network = with(network(rtt_us), json!({"down": way(down), "up": way(up)}));
        let orders = [["tcp", "cold", "warm"], ["warm", "tcp", "cold"], ["cold", "warm", "tcp"]];
        let mut runs = Vec::new();
        for order in orders {
            let Some(mut command) = in_virtual_time() else { return };
            let job = with(eventful("order", 11), json!({"loads": arms(&order), "network": network}));
            runs.push(run_command(&mut command, job.to_string().as_bytes()));
        }
        for id in orders[0] {
            let [first, rest @ ..] = &runs[..] else { panic!("three runs") };
            for other in rest {
                for part in ["plt_ns", "requests", "counters", "link"] {
                    assert_eq!(first.valid(id)[part], other.valid(id)[part], "{part} of {id}");
                }
            }
        }
        timers +=
            runs[0].of_type("load").iter().map(|load| grown(load, "client", "TCPTimeouts")).sum::<u64>();
    }
    // At least one load must have used a retransmission timer, whose expiry the timer wheel rounds.
    assert!(timers > 0, "no timer expired");
}

#[test]
fn time_is_exact_and_waiting_costs_none() {
    let Some(mut command) = in_virtual_time() else { return };
    let started = Instant::now();
    let think = with(root(100), json!({"server_think_us": 30_000_000}));
    let run = run_command(
        &mut command,
        job(&page(&[think]), &network(200_000), &["tcp", "warm"]).to_string().as_bytes(),
    );
    // The load without Fast Open takes a round trip for the handshake, one for the request, and 30 s of think
    // time. Nothing else takes time.
    assert_eq!(number(&run.valid("tcp")["plt_ns"]), 30_400_000_000);
    assert_eq!(number(&run.valid("warm")["plt_ns"]), 30_200_000_000);
    assert_eq!(with_syn_data(run.load("warm"), "origin"), 1);
    assert_eq!(grown(run.load("warm"), "origins", "TCPFastOpenPassive"), 1);
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "a minute of virtual time took {:?}",
        started.elapsed()
    );
    let world = run.only("world");
    assert_eq!((&world["engine"], &world["link"]), (&json!("virtual"), &json!("kernel")));
}

#[test]
fn the_kernel_and_the_link_model_make_the_same_link() {
    let Some((kernel, arguments)) = kernel() else {
        eprintln!("skipped: no kernel of the virtual engine is installed (fastopen kernel build)");
        return;
    };
    // The bodies are long enough that packets wait in the queue, and too short to overflow it.
    let page = page(&[root(20_000), image("http://b.test/", 50_000), image("http://c.test/", 5_000)]);
    let network = with(network(60_000), json!({"down": rate(4_000_000), "up": rate(256_000)}));
    let loads = |link: &str| -> Run {
        let network = with(network.clone(), json!({"link": link}));
        let job = job(&page, &network, &["tcp", "warm"]);
        run_command(&mut on(&kernel, &arguments), job.to_string().as_bytes())
    };
    let (by_program, by_kernel) = (loads("program"), loads("kernel"));
    for id in ["tcp", "warm"] {
        let (program, kernel) = (by_program.valid(id), by_kernel.valid(id));
        for way in ["down", "up"] {
            for count in ["packets", "bytes"] {
                assert_eq!(program["link"][way][count], kernel["link"][way][count], "{id} {way} {count}");
            }
        }
        // The program's forwarder rounds the time of each packet by at most a microsecond.
        let off_us = (plt_ms(program) - plt_ms(kernel)).abs() * 1000.0;
        assert!(off_us <= 20.0, "{id}: {} and {} ms", plt_ms(program), plt_ms(kernel));
    }
}

/// Runs a small job on the virtual engine, with this shell script instead of a kernel.
fn with_bad_kernel(text: &str) -> Run {
    let kernel = Temporary::file(format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&kernel.0, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let job = job(&page(&[root(10)]), &network(1000), &["tcp"]).to_string();
    run_command(on(&kernel.0, &[]).env("FASTOPEN_KERNEL_TIMEOUT_S", "2"), job.as_bytes())
}

#[test]
fn a_kernel_that_hangs_is_killed_and_its_consoles_last_lines_are_quoted() {
    let started = Instant::now();
    let run = with_bad_kernel("echo first; echo 'INFO: task stuck'; exec sleep 100");
    let message = run.only("error")["message"].as_str().expect("a text");
    assert!(message.contains("wrote nothing for 2 s") && message.contains("task stuck"), "{message}");
    assert!(started.elapsed() < Duration::from_secs(50), "it waited for the program to end by itself");
    assert_eq!((run.code, &run.only("error")["job"]), (Some(70), &json!("job")));
}

#[test]
fn a_kernel_that_panics_is_an_error_that_quotes_its_consoles_last_lines() {
    let run = with_bad_kernel("echo 'Kernel panic - not syncing: no init found'; exit 134");
    let message = run.only("error")["message"].as_str().expect("a text");
    assert!(message.contains("exit code 134") && message.contains("no init found"), "{message}");
}

#[test]
fn a_kernel_that_finds_no_memory_is_an_error_of_the_machine_with_a_remedy() {
    let Some(engine) = in_virtual_time() else { return };
    let job = job(&page(&[root(10)]), &network(1000), &["tcp"]).to_string();
    let mut bounded = Command::new("prlimit");
    bounded.arg("--as=200000000").arg(engine.get_program()).args(engine.get_args());
    let run = run_command(&mut bounded, job.as_bytes());
    assert_eq!(run.code, Some(3), "{run}");
    assert!(run.only("error")["remedy"].as_str().expect("a text").contains("MB of memory"), "{run}");
}

#[test]
fn a_kernel_that_is_not_there_is_an_error_with_a_remedy() {
    let job = job(&page(&[root(10)]), &network(1000), &["tcp"]).to_string();
    let run = run_command(&mut on(Path::new("/nowhere/linux"), &[]), job.as_bytes());
    assert_eq!(run.code, Some(3));
    assert!(run.only("error")["remedy"].as_str().expect("a text").contains("fastopen kernel build"));
}

/// Returns the IDs of other processes whose command line contains `text`.
fn naming(text: &str) -> Vec<u32> {
    let names_it = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != std::process::id() && String::from_utf8_lossy(&line).contains(text)
    };
    all_processes().into_iter().filter(names_it).collect()
}

#[test]
fn whatever_is_killed_nothing_is_left_and_finished_loads_are_kept() {
    let Some((kernel, arguments)) = kernel() else {
        eprintln!("skipped: no kernel of the virtual engine is installed (fastopen kernel build)");
        return;
    };
    // Use a separate temporary folder, because other tests may have files in the common one.
    let place = Temporary::folder();
    let loads: Vec<_> = (0..10_000).map(|at| json!({"id": at.to_string(), "transport": "tcp"})).collect();
    let long = with(job(&page(&[root(1000)]), &network(1000), &[]), json!({"loads": loads})).to_string();
    for (who, stage) in [
        ("kernel", Stage::Loading),
        ("cleanup", Stage::Loading),
        ("launcher", Stage::Loading),
        ("launcher", Stage::After(1)),
        ("launcher", Stage::After(3)),
        ("launcher", Stage::After(5)),
        ("launcher", Stage::After(60)),
    ] {
        let mut child = start(on(&kernel, &arguments).env("TMPDIR", &place.0), long.as_bytes());
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut before = String::new();
        match stage {
            Stage::After(ms) => thread::sleep(Duration::from_millis(ms)),
            Stage::Loading => {
                while !before.contains(r#"{"type":"load""#) {
                    assert!(output.read_line(&mut before).expect("it writes") > 0, "it ended: {before}");
                }
            }
        }
        let processes = children(child.id());
        // The kernel is a child of the first process in the launcher's namespaces.
        let kernel = || processes.iter().find_map(|first| children(*first).first().copied());
        let cleanup = || processes.iter().copied().find(|pid| name_of(*pid) == "cleanup");
        let victims = match who {
            "launcher" => vec![Some(child.id())],
            "cleanup" => vec![cleanup(), kernel()],
            _ => vec![kernel()],
        };
        for victim in victims {
            signal("KILL", victim.expect("it runs"));
        }
        output.read_to_string(&mut before).expect("it writes UTF-8");
        child.wait().expect("it can be waited for");
        if who == "kernel" {
            let whole: Vec<Value> =
                before.lines().map(|line| serde_json::from_str(line).expect("whole records")).collect();
            let kept =
                whole.iter().filter(|record| record["type"] == "load" && record["valid"] == true).count();
            assert_eq!(kept, whole.len() - 2, "between the world and the error are valid loads alone");
            let error = whole.last().expect("an error");
            assert!(error["message"].as_str().expect("a text").contains("signal 9"), "{error:.500}");
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut left = (naming(place.path()), folders(&place.0));
        while (!left.0.is_empty() || !left.1.is_empty()) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
            left = (naming(place.path()), folders(&place.0));
        }
        assert_eq!(left, (Vec::new(), Vec::new()), "after the {who} was killed");
    }
}

#[test]
fn what_is_left_where_all_that_would_remove_it_was_killed_the_next_kernel_removes() {
    let Some((kernel, arguments)) = kernel() else {
        eprintln!("skipped: no kernel of the virtual engine is installed (fastopen kernel build)");
        return;
    };
    let place = Temporary::folder();
    let other = place.0.join("fastopen-kernel-of-another-kind");
    fs::create_dir(&other).expect("it is new");
    let begin = || {
        let text =
            job(&page(&[with(root(10), json!({"server_think_us": 60_000_000}))]), &network(1000), &["tcp"]);
        start(on(&kernel, &arguments).env("TMPDIR", &place.0), text.to_string().as_bytes())
    };
    let is_made = |count| move |place: &Path| folders(place).len() == count;
    let wait = |what: &dyn Fn(&Path) -> bool| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !what(&place.0) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(what(&place.0), "{:?}", folders(&place.0));
    };
    let mut left = begin();
    wait(&is_made(2));
    let cleanup = children(left.id()).into_iter().find(|pid| name_of(*pid) == "cleanup").expect("it runs");
    // Stop the launcher first. Otherwise it would remove the folder between the two kills.
    signal("STOP", left.id());
    let all = family(left.id());
    signal("KILL", cleanup);
    signal("KILL", left.id());
    left.wait().expect("it can be waited for");
    // The lock on the folder is released when the last process that holds it ends.
    wait_until("all have ended", || !all.iter().any(|pid| is_alive(*pid)));
    assert_eq!(folders(&place.0).len(), 2, "nobody was left to remove it");
    let mut running = begin();
    let mut last = String::new();
    BufReader::new(running.stdout.take().expect("it is piped")).read_to_string(&mut last).expect("it writes");
    assert!(last.contains(r#""type":"end""#), "{last:.500}");
    running.wait().expect("it can be waited for");
    wait(&is_made(1));
    fs::remove_dir(&other).expect("it is nobody's, and left alone");
}

/// The time at which a test kills the processes.
enum Stage {
    /// This number of milliseconds after the start.
    After(u64),
    /// As soon as the record of the first load has been written.
    Loading,
}

fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

fn folders(place: &Path) -> Vec<PathBuf> {
    fs::read_dir(place).expect("it is there").flatten().map(|entry| entry.path()).collect()
}
