//! Deferred calls of a thread, which are made together with its next call.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use libc::{c_long, epoll_event, itimerspec};

use super::entry::{Entry, LIST_MAX, enter, entry, make_list, takes_lists};

/// Result of a deferred call; None before it is made. A negative value is an error number.
pub(crate) type Answer = Rc<Cell<Option<isize>>>;

thread_local! {
    static DEFERRED: RefCell<Deferred> = const { RefCell::new(Deferred::new()) };
}

/// The deferred calls of a thread.
struct Deferred {
    /// True if calls without a waiting caller are deferred.
    deferring: bool,
    calls: Vec<Call>,
    /// Call to make after the next `epoll_wait` that finds events. A wait without events drops it.
    after_wait: Option<Call>,
    list: Vec<Entry>,
}

struct Call {
    entry: Entry,
    /// Index of a pointer argument, and a copy of its data. Without it, the caller owns the data until the
    /// call is made.
    memory: Option<(usize, [u64; 4])>,
    answer: Option<Answer>,
}

impl Deferred {
    const fn new() -> Self {
        Self { deferring: false, calls: Vec::new(), after_wait: None, list: Vec::new() }
    }

    fn push(&mut self, call: Call) {
        self.calls.push(call);
        // Leaves room for a wait and its follower.
        if !self.deferring || self.calls.len() + 2 == LIST_MAX {
            self.make(None);
        }
    }

    /// Makes all deferred calls, then `last`, and returns its result. If a call has a smaller result than
    /// required, the later ones with a result are not made, and an `epoll_wait` finds no events.
    fn make(&mut self, last: Option<Entry>) -> Option<isize> {
        self.list.clear();
        for Call { entry, memory, .. } in &mut self.calls {
            if let Some((argument, memory)) = memory {
                entry.arguments[*argument] = memory.as_mut_ptr() as usize;
            }
            self.list.push(*entry);
        }
        self.list.extend(last);
        let waits = last.is_some_and(|last| last.number == libc::SYS_epoll_wait);
        let follower = self.after_wait.take_if(|_| waits);
        if let (Some(wait), Some(follower)) = (self.list.last_mut(), &follower) {
            // A wait without events ends the list.
            wait.least = 1;
            self.list.push(follower.entry);
        }
        // SAFETY: of callers of `defer`; memory of other calls lives in `self.calls`; `last` is the caller's.
        let made = unsafe { make_list(&mut self.list) };
        let results = self.list[..made].iter().map(|entry| entry.result);
        let deferred = self.calls.len();
        self.calls
            .drain(..deferred.min(made))
            .zip(results.clone())
            .for_each(|(call, result)| call.tell(result));
        let mut rest = results.skip(deferred);
        let answer = rest.next().filter(|_| last.is_some());
        follower.into_iter().zip(rest).for_each(|(call, result)| call.tell(result));
        if made >= deferred + usize::from(last.is_some()) {
            return answer;
        }
        self.calls.retain(|call| call.answer.is_none());
        let again = self.make(last.filter(|_| !waits));
        if waits { Some(0) } else { again }
    }
}

impl Call {
    fn tell(self, result: isize) {
        match self.answer {
            Some(answer) => answer.set(Some(result)),
            None => assert!(result >= 0, "deferred system call {}: {result}", self.entry.number),
        }
    }

    /// Returns the call if its caller need not wait for the result.
    ///
    /// # Safety
    /// The data that it points to can be read.
    unsafe fn deferrable(number: c_long, arguments: [usize; 6]) -> Option<Self> {
        let memory = match number {
            libc::SYS_close => None,
            libc::SYS_epoll_ctl if arguments[3] == 0 => None,
            libc::SYS_epoll_ctl => Some((3, size_of::<epoll_event>())),
            libc::SYS_timerfd_settime if arguments[3] == 0 => Some((2, size_of::<itimerspec>())),
            _ => return None,
        };
        let memory = memory.map(|(argument, bytes)| {
            let mut copy = [0_u64; 4];
            // SAFETY: the caller's; both types fit into the copy.
            unsafe {
                let from = arguments[argument] as *const u8;
                from.copy_to_nonoverlapping(copy.as_mut_ptr().cast(), bytes);
            }
            (argument, copy)
        });
        Some(Self { entry: Entry::new(number, arguments), memory, answer: None })
    }
}

/// Defers, until dropped, calls that the thread need not wait for: `close`, `epoll_ctl` and
/// `timerfd_settime`. They are made in order, before any other call of these functions. A kernel without
/// lists defers nothing.
pub fn deferring() -> Deferring {
    let takes_lists = takes_lists();
    DEFERRED.with_borrow_mut(|deferred| deferred.deferring = takes_lists);
    Deferring(())
}

/// Guard of [`deferring`].
pub struct Deferring(());

impl Drop for Deferring {
    fn drop(&mut self) {
        DEFERRED.with_borrow_mut(|deferred| {
            deferred.deferring = false;
            // The wait that it follows does not come.
            deferred.after_wait = None;
        });
        make_deferred();
    }
}

/// Makes all deferred calls of the calling thread.
pub fn make_deferred() {
    let _ = DEFERRED.try_with(|deferred| {
        if let Ok(mut deferred) = deferred.try_borrow_mut() {
            deferred.make(None);
        }
    });
}

/// Makes a call before the next one of the calling thread, or at once if the thread defers none. If its
/// result is below `least`, later calls with a result are not made, and a following `epoll_wait` finds no
/// events.
///
/// # Safety
/// As the system call, whenever it is made: what it points to lives until there is an answer, or until
/// [`make_deferred`] has returned.
pub(crate) unsafe fn defer(number: c_long, arguments: [usize; 6], least: isize, answer: &Answer) {
    let entry = Entry { least, ..Entry::new(number, arguments) };
    let call = Call { entry, memory: None, answer: Some(answer.clone()) };
    DEFERRED.with_borrow_mut(|deferred| deferred.push(call));
}

/// Makes a call right after the calling thread's next `epoll_wait`, if that finds events. Returns true if it
/// will be made, which is false if the thread defers no calls.
///
/// # Safety
/// As of [`defer`], until the thread has waited.
pub(crate) unsafe fn after_wait(number: c_long, arguments: [usize; 6], answer: &Answer) -> bool {
    DEFERRED.with_borrow_mut(|deferred| {
        if deferred.deferring {
            let entry = Entry::new(number, arguments);
            deferred.after_wait = Some(Call { entry, memory: None, answer: Some(answer.clone()) });
        }
        deferred.deferring
    })
}

/// Makes the deferred calls of the thread and then this one, or defers this one as well. Returns the kernel's
/// result; a value between -4096 and 0 is an error number.
///
/// # Safety
/// As the system call.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn system_call(number: c_long, arguments: [usize; 6]) -> isize {
    let of_thread = |deferred: &RefCell<Deferred>| {
        // It is borrowed in a call from within these functions.
        let mut deferred = deferred.try_borrow_mut().ok()?;
        // SAFETY: the caller's.
        if let Some(call) =
            deferred.deferring.then(|| unsafe { Call::deferrable(number, arguments) }).flatten()
        {
            deferred.push(call);
            return Some(0);
        }
        let alone = deferred.calls.is_empty() && deferred.after_wait.is_none();
        if alone { None } else { deferred.make(Some(Entry::new(number, arguments))) }
    };
    let answer = if entry() == 0 { None } else { DEFERRED.try_with(of_thread).ok().flatten() };
    // SAFETY: the caller's.
    answer.unwrap_or_else(|| unsafe { enter(number, arguments) })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

    use nix::fcntl::OFlag;
    use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
    use nix::unistd::pipe2;

    use super::*;

    fn pipe() -> (File, File) {
        let (from, to) = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).expect("there are descriptors");
        (from.into(), to.into())
    }

    fn deferring() -> Deferred {
        Deferred { deferring: true, ..Deferred::new() }
    }

    fn close(fd: OwnedFd) -> Call {
        // SAFETY: `close` points to nothing.
        unsafe { Call::deferrable(libc::SYS_close, [fd.into_raw_fd() as usize, 0, 0, 0, 0, 0]) }
            .expect("nobody waits for it")
    }

    fn write(to: &File, bytes: &'static [u8], least: isize, answer: &Answer) -> Call {
        let arguments = [to.as_raw_fd() as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
        let entry = Entry { least, ..Entry::new(libc::SYS_write, arguments) };
        Call { entry, memory: None, answer: Some(answer.clone()) }
    }

    fn read(from: &File, buffer: &mut [u8]) -> Entry {
        let arguments = [from.as_raw_fd() as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
        Entry::new(libc::SYS_read, arguments)
    }

    /// An epoll instance that watches `from`, and a wait for it.
    fn watch(from: &File, events: &mut [EpollEvent; 2]) -> (Epoll, Entry) {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("there are descriptors");
        epoll.add(from, EpollEvent::new(EpollFlags::EPOLLIN, 7)).expect("a pipe can be watched");
        let arguments = [epoll.0.as_raw_fd() as usize, events.as_mut_ptr() as usize, events.len(), 0, 0, 0];
        (epoll, Entry::new(libc::SYS_epoll_wait, arguments))
    }

    #[test]
    fn deferred_calls_are_made_in_their_order_before_the_next_one() {
        let mut deferred = deferring();
        let (from, to) = pipe();
        let answer = Answer::default();
        deferred.push(write(&to, b"last", 4, &answer));
        deferred.push(close(to.into()));
        assert_eq!(answer.get(), None);
        let mut buffer = [0; 8];
        assert_eq!(deferred.make(Some(read(&from, &mut buffer))), Some(4));
        assert_eq!((&buffer[..4], answer.get()), (b"last".as_slice(), Some(4)));
        // Its end is closed: no more can come.
        assert_eq!(deferred.make(Some(read(&from, &mut buffer))), Some(0));
    }

    #[test]
    fn what_was_given_by_pointer_is_the_same_when_the_call_is_made() {
        let (from, mut to) = pipe();
        let mut events = [EpollEvent::empty(); 2];
        let (epoll, wait) = watch(&pipe().0, &mut events);
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 31 };
        let fds = [epoll.0.as_raw_fd() as usize, from.as_raw_fd() as usize];
        let arguments = [fds[0], libc::EPOLL_CTL_ADD as usize, fds[1], (&raw mut event) as usize, 0, 0];
        let mut deferred = deferring();
        // SAFETY: the event can be read.
        deferred.push(unsafe { Call::deferrable(libc::SYS_epoll_ctl, arguments) }.expect("so is this"));
        std::hint::black_box(&raw mut event);
        event = libc::epoll_event { events: 0, u64: 0 };
        std::hint::black_box(&raw mut event);
        to.write_all(b"x").expect("there is room");
        assert_eq!(deferred.make(Some(wait)), Some(1));
        assert_eq!(events[0].data(), 31);
    }

    #[test]
    fn after_a_call_with_less_than_it_asks_for_none_with_an_answer_is_made_and_a_wait_finds_nothing() {
        let mut deferred = deferring();
        let (mut from, to) = pipe();
        let (other, closed) = pipe();
        let mut events = [EpollEvent::empty(); 2];
        let (_epoll, wait) = watch(&from, &mut events);
        let (short, not_made) = (Answer::default(), Answer::default());
        deferred.push(write(&to, b"a", 2, &short));
        deferred.push(write(&to, b"b", 1, &not_made));
        deferred.push(close(closed.into()));
        assert_eq!(deferred.make(Some(wait)), Some(0));
        assert_eq!((short.get(), not_made.get()), (Some(1), None));
        let mut buffer = [0; 8];
        assert_eq!(from.read(&mut buffer).expect("the first was made"), 1);
        assert_eq!(deferred.make(Some(read(&other, &mut buffer))), Some(0), "the end was closed");
        assert!(deferred.calls.is_empty());
    }

    #[test]
    fn what_follows_a_wait_is_made_where_that_finds_events() {
        let (from, mut to) = pipe();
        let mut events = [EpollEvent::empty(); 2];
        let (_epoll, wait) = watch(&from, &mut events);
        let mut buffer = [0; 8];
        let mut deferred = deferring();
        let mut found = |deferred: &mut Deferred| {
            let answer = Answer::default();
            deferred.after_wait =
                Some(Call { entry: read(&from, &mut buffer), memory: None, answer: Some(answer.clone()) });
            (deferred.make(Some(wait)), answer.get())
        };
        assert_eq!(found(&mut deferred), (Some(0), None));
        to.write_all(b"five!").expect("there is room");
        assert_eq!(found(&mut deferred), (Some(1), Some(5)));
    }

    #[test]
    fn more_calls_than_a_list_holds_are_made_on_the_way() {
        let mut deferred = deferring();
        let (mut from, to) = pipe();
        for _ in 0..100 {
            deferred.push(write(&to, b"x", 1, &Answer::default()));
        }
        assert!(deferred.calls.len() < LIST_MAX);
        deferred.make(None);
        drop(to);
        let mut all = Vec::new();
        from.read_to_end(&mut all).expect("all were made");
        assert_eq!(all.len(), 100);
    }
}
