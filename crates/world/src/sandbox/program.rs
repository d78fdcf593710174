//! External programs in a world: their environment, their writable folder, and the last lines of their
//! output.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use fastopen_netns::namespace::scratch;
use fastopen_netns::sandbox::confine;

/// The environment without `PATH`, `HOME` and `TMPDIR`.
const ENVIRONMENT: [(&str, &str); 4] =
    [("LANG", "C.UTF-8"), ("TERM", "dumb"), ("TZ", "UTC"), ("USER", "user")];
/// The `PATH` if this program has none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Bytes at the end of the output that are searched for the last lines.
const TAIL_BYTES: u64 = 4096;

/// The files of one program, which are removed with it.
pub struct Home {
    /// `HOME`, `TMPDIR` and the working directory.
    pub folder: PathBuf,
    /// The program's output, outside the folder, which belongs to the program.
    output: Output,
}

/// The file that takes a program's output; removed with this.
pub struct Output(PathBuf);

impl Home {
    /// Creates the files.
    ///
    /// # Errors
    /// If the name exists, or no memory is left.
    pub fn make(name: &str) -> io::Result<Self> {
        let home = Self { folder: scratch().join(name), output: Output::named(name) };
        fs::create_dir(&home.folder)?;
        Ok(home)
    }

    /// Returns the program's output.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Returns the command with these words, at least one, confined to this folder, without input. Its
    /// standard error is kept. The caller adds a view of the files (`protect_files`).
    ///
    /// # Errors
    /// If no memory is left.
    pub fn command(&self, words: &[impl AsRef<OsStr>]) -> io::Result<Command> {
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").filter(|path| !path.is_empty()).unwrap_or(PATH.into()))
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
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Output {
    /// Returns the output of a program of this name. Its file is created when it is opened.
    pub fn named(name: &str) -> Self {
        Self(scratch().join(format!("{name}.output")))
    }

    /// Opens the file for appending.
    ///
    /// # Errors
    /// If no memory is left.
    pub fn file(&self) -> io::Result<File> {
        File::options().create(true).append(true).open(&self.0)
    }

    /// Returns a colon and the last lines with a word, at most `lines`, or an empty text. Lines without a
    /// word are empty, or point to a place in the line above.
    pub fn last_lines(&self, lines: usize) -> String {
        let text = self.tail().unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut last: Vec<_> =
            text.lines().map(str::trim).filter(|line| line.contains(char::is_alphanumeric)).collect();
        last.drain(..last.len().saturating_sub(lines));
        let words: String = last.join(" | ").chars().filter(|letter| !letter.is_control()).collect();
        if words.is_empty() { words } else { format!(": {words}") }
    }

    fn tail(&self) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.0)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Describes how a program ended.
pub fn how_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (_, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
    }
}
