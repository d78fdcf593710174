//! Starts a job's external programs, which are its client and its server. Each gets an environment, a
//! writable folder, and a file for its output, whose last lines are quoted in errors.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use fastopen_intercept::{Started, Watch};
use fastopen_netns::namespace::{NetNs, scratch};
use fastopen_netns::process::end_all_others;
use fastopen_netns::sandbox::{confine, protect_files, restrict_sockets};

use crate::contract::Fault;
use crate::failure::{Blame, Failure};

/// The environment variables of programs, in addition to `PATH`, `HOME` and `TMPDIR`.
const ENVIRONMENT: [(&str, &str); 4] =
    [("LANG", "C.UTF-8"), ("TERM", "dumb"), ("TZ", "UTC"), ("USER", "user")];
/// The `PATH` of programs if this process has none.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Number of bytes at the end of a program's output in which [`Output::last_lines`] looks for lines.
const TAIL_BYTES: u64 = 4096;
/// Maximum number of lines at the end of a server's output that an error quotes.
pub const SERVER_LINES: usize = 4;

/// The folder and the output file of one program. Dropping this value removes both.
pub struct Home {
    /// The program's `HOME`, `TMPDIR` and working directory.
    pub folder: PathBuf,
    /// The output file. It is outside the folder, because the program may change anything in the folder.
    pub output: Output,
}

/// The file to which a program's output is written. Dropping this value removes the file.
pub struct Output(PathBuf);

impl Home {
    /// Creates a folder with this `name`. The file for the program's output is created when it is opened.
    pub fn make(name: &str) -> io::Result<Self> {
        let home = Self { folder: scratch().join(name), output: Output::named(name) };
        fs::create_dir(&home.folder)?;
        Ok(home)
    }

    /// Returns a command that consists of these `words` (at least one). It runs in this folder without
    /// capabilities, has no input, discards its standard output, and writes its standard error to the output
    /// file. The caller must also restrict the thread that starts the command ([`Home::restrictions`]).
    pub fn command(&self, words: &[impl AsRef<OsStr>]) -> io::Result<Command> {
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env_clear()
            .env("PATH", path())
            .envs(ENVIRONMENT)
            .envs([("HOME", &self.folder), ("TMPDIR", &self.folder)])
            .current_dir(&self.folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.output.file()?);
        confine(&mut command);
        Ok(command)
    }

    /// Starts a command with Fast Open enabled on its connections, by interception of its system calls. The
    /// connections' local ports count up from `first_port`; if this is None, the kernel chooses them. For
    /// `isolated`, see [`Home::restrictions`]. Error messages begin with `place`, such as `client.command`.
    pub fn start(
        &self,
        command: Command,
        first_port: Option<u16>,
        isolated: bool,
        place: &str,
    ) -> Result<Started, Failure> {
        let started = Watch::start(command, first_port, self.restrictions(isolated));
        started.map_err(|error| {
            Failure::new(Fault::Machine, format!("{place}: {error}")).with_remedy(error.remedy())
        })
    }

    /// Returns a function that restricts the calling thread and programs it starts: they can write only to
    /// this folder, and use UNIX sockets only if `isolated` is true (then the machine's sockets are hidden).
    pub fn restrictions(&self, isolated: bool) -> impl FnOnce() -> fastopen_netns::Result<()> + Send + use<> {
        let folder = self.folder.clone();
        move || protect_files(&folder).and_then(|()| restrict_sockets(isolated))
    }
}

/// Calls `start` in a new thread, in a network namespace. `start` may restrict the thread, and thereby the
/// program that it starts.
pub fn start_in<T: Send>(
    namespace: &NetNs,
    start: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    thread::scope(|scope| {
        let enter_and_start = || namespace.enter().map_err(Failure::from).and_then(|()| start());
        let thread = thread::Builder::new().name("server".into()).spawn_scoped(scope, enter_and_start);
        thread.blame(Fault::Machine, "starting a thread")?.join().expect("starting a program does not panic")
    })
}

/// A running program. Dropping this value kills it and, if this process is PID 1, all other processes.
pub struct Program(pub Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        // The program may have started daemons, which are in other process groups.
        end_all_others();
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Output {
    /// Returns the output file of a program called `name`. The file is created when it is opened.
    pub fn named(name: &str) -> Self {
        Self(scratch().join(format!("{name}.output")))
    }

    /// Opens the program's output file for appending, and creates it if necessary.
    pub fn file(&self) -> io::Result<File> {
        File::options().create(true).append(true).open(&self.0)
    }

    /// Returns a colon and the last lines of the output, at most `lines`, separated by `|`. Returns an empty
    /// string if there are none. Skips lines without letters and digits.
    pub fn last_lines(&self, lines: usize) -> String {
        let text = end_of(&self.0, TAIL_BYTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        // After a carriage return, a progress meter writes its line again.
        let lines_of_text = text.split(['\n', '\r']).map(str::trim);
        let mut last: Vec<_> = lines_of_text.filter(|line| line.contains(char::is_alphanumeric)).collect();
        last.drain(..last.len().saturating_sub(lines));
        let words: String = last.join(" | ").chars().filter(|letter| !letter.is_control()).collect();
        if words.is_empty() { words } else { format!(": {words}") }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns the `PATH` of this process, or [`PATH`] if it has none.
pub fn path() -> OsString {
    std::env::var_os("PATH").filter(|path| !path.is_empty()).unwrap_or(PATH.into())
}

/// Returns the last bytes of a file, at most `most`. The file may be too large to read as a whole.
pub fn end_of(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Describes how a program ended, such as `ended with exit code 1`.
pub fn how_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (_, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
    }
}
