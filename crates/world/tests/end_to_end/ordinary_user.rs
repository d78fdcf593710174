//! Everything without root, where the system allows user namespaces to ordinary users.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use crate::support::{PROGRAM, image, job, network, page, root, run_command, with_syn_data};

/// `nobody` on most systems; any number would do.
const USER: &str = "65534";

#[test]
fn an_ordinary_user_gets_the_same_world() {
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        eprintln!("skipped: this is an ordinary user already, so every other test has shown it");
        return;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: setpriv (util-linux) is not installed");
        return;
    }
    // The build folder may be closed to others.
    let folder = std::env::temp_dir().join(format!("fastopen-ordinary-{}", std::process::id()));
    fs::create_dir(&folder).expect("the temporary folder is writable");
    let program = folder.join("fastopen-world");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&folder, open)
        .and_then(|()| fs::copy(PROGRAM, &program))
        .expect("the program can be copied");
    let page = page(&[root(3000), image("http://b.test/", 500)]);
    let job = job(&page, &network(10_000), &["tcp", "cold", "warm"]);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(&program);
    let run = run_command(&mut command, job.to_string().as_bytes());
    fs::remove_dir_all(&folder).expect("it is there");
    assert_eq!(run.code, Some(0), "{run}");
    for id in ["tcp", "cold"] {
        run.valid(id);
    }
    assert_eq!(with_syn_data(run.valid("warm"), "origin"), 2);
    assert_eq!(run.only("world")["routes"]["client"]["congestion_control"], "cubic");
}
