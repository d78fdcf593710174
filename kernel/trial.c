/*
 * The first process of a kernel just built: does it keep virtual time, is its randomness
 * repeatable, and has it what a world needs? Prints "name value" lines and "trial done".
 *
 * `fastopen kernel build` boots it twice, and every line must be the same both times.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLEEP_S 600

static void end(void)
{
	fflush(stdout);
	reboot(RB_POWER_OFF);
}

static void fail(const char *what)
{
	printf("failed %s: %s\n", what, strerror(errno));
	end();
}

static long long now_ns(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t) < 0)
		fail("clock_gettime");
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void print_file(const char *name, const char *path)
{
	char text[256] = "";
	int file = open(path, O_RDONLY);

	if (file < 0 || read(file, text, sizeof(text) - 1) < 0)
		fail(path);
	close(file);
	text[strcspn(text, "\n")] = 0;
	printf("%s %s\n", name, text);
}

static void expect(const char *what, long got, long wanted)
{
	if (got == wanted)
		return;
	printf("failed %s: %ld in place of %ld\n", what, got, wanted);
	end();
}

#ifdef __x86_64__
/*
 * A system call by a call of AT_SYSINFO (patch 0004); ends the trial if a register that a function keeps has
 * changed.
 */
__attribute__((noinline)) static long vsyscall(long number, long first, long second, long third)
{
	unsigned long entry = getauxval(AT_SYSINFO);
	register long fourth asm("r10") = 0;
	long changed, answer = number;

	asm volatile("push %%rbx; push %%rbp; push %%r12; push %%r13; push %%r14; push %%r15\n\t"
		     "mov $0x1b, %%ebx; mov $0x1c, %%ebp; mov $0x12, %%r12d\n\t"
		     "mov $0x13, %%r13d; mov $0x14, %%r14d; mov $0x15, %%r15d\n\t"
		     "call *%%rcx\n\t"
		     "xor $0x1b, %%rbx; xor $0x1c, %%rbp; xor $0x12, %%r12\n\t"
		     "xor $0x13, %%r13; xor $0x14, %%r14; xor $0x15, %%r15\n\t"
		     "or %%rbp, %%rbx; or %%r12, %%rbx; or %%r13, %%rbx; or %%r14, %%rbx; or %%r15, %%rbx\n\t"
		     "mov %%rbx, %%rdx\n\t"
		     "pop %%r15; pop %%r14; pop %%r13; pop %%r12; pop %%rbp; pop %%rbx"
		     : "+a"(answer), "+c"(entry), "+D"(first), "+S"(second), "=d"(changed), "+r"(fourth)
		     : "4"(third)
		     : "r8", "r9", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
		       "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
	expect("what a vsyscall changed in registers", changed, 0);
	return answer;
}

static int pipe_ends[2];
static __thread int own = 1;

static void write_a_byte(int signal)
{
	(void)signal;
	vsyscall(SYS_write, pipe_ends[1], (long)"x", 1);
}

static void interrupt_in_a_millisecond(int flags)
{
	struct sigaction action = { .sa_handler = write_a_byte, .sa_flags = flags };
	struct itimerval once = { .it_value.tv_usec = 1000 };

	if (sigaction(SIGALRM, &action, NULL) < 0 || setitimer(ITIMER_REAL, &once, NULL) < 0)
		fail("setting a timer");
}

static long read_a_byte(void)
{
	char byte;

	return vsyscall(SYS_read, pipe_ends[0], (long)&byte, 1);
}

static void *read_bytes(void *unused)
{
	(void)unused;
	for (own = 2; own < 100; own++)
		expect("a read by vsyscall in a thread", read_a_byte(), 1);
	return NULL;
}

/* The instruction of system calls and page faults are signals. Neither changes a vector register. */
static void keep_vector_registers(void)
{
	double kept = 1.5, got = 0;
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long answer = SYS_getpid;

	if (page == MAP_FAILED)
		fail("mmap");
	asm volatile("movsd %2, %%xmm13; syscall; movb $1, (%3); movsd %%xmm13, %1"
		     : "+a"(answer), "=m"(got)
		     : "m"(kept), "r"(page)
		     : "rcx", "r11", "memory", "xmm13");
	expect("getpid by the instruction", answer, getpid());
	expect("a vector register after a system call and a page fault", got == kept, 1);
}

/* A forked process does not run in the kernel's own, but calls the same address. */
static void call_from_a_fork(void)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(vsyscall(SYS_getpid, 0, 0, 0) == getpid() && vsyscall(SYS_close, -1, 0, 0) == -EBADF ? 7 : 8);
	if (child < 0 || waitpid(child, &status, 0) != child)
		fail("fork");
	expect("a vsyscall of a forked process", WIFEXITED(status) ? WEXITSTATUS(status) : -1, 7);
}

static void call_the_kernel(void)
{
	pthread_t other;

	/* This machine cannot run a process in the kernel's own. */
	if (!getauxval(AT_SYSINFO))
		return;
	expect("getpid by vsyscall", vsyscall(SYS_getpid, 0, 0, 0), getpid());
	expect("an error by vsyscall", vsyscall(SYS_close, -1, 0, 0), -EBADF);
	if (pipe(pipe_ends) < 0)
		fail("pipe");
	interrupt_in_a_millisecond(0);
	expect("an interrupted read by vsyscall", read_a_byte(), -EINTR);
	expect("the byte that the signal's handler wrote", read_a_byte(), 1);
	interrupt_in_a_millisecond(SA_RESTART);
	expect("a restarted read by vsyscall", read_a_byte(), 1);

	keep_vector_registers();
	call_from_a_fork();

	/* Two threads take turns, each with its own thread-local storage. */
	if (pthread_create(&other, NULL, read_bytes, NULL))
		fail("starting a thread");
	for (int turn = 2; turn < 100; turn++) {
		expect("a write by vsyscall", vsyscall(SYS_write, pipe_ends[1], (long)"x", 1), 1);
		vsyscall(SYS_sched_yield, 0, 0, 0);
	}
	if (pthread_join(other, NULL))
		fail("pthread_join");
	expect("thread-local storage after vsyscalls of two threads", own, 1);
	printf("vsyscall works\n");
}
#else
static void call_the_kernel(void) {}
#endif

int main(void)
{
	struct timespec ten_minutes = { .tv_sec = SLEEP_S };
	unsigned long long number;
	struct utsname kernel;
	long long before, count;
	unsigned int processor;

	if (uname(&kernel) < 0)
		fail("uname");
	printf("release %s\n", kernel.release);
	printf("started_ns %lld\n", now_ns(CLOCK_REALTIME));

	before = now_ns(CLOCK_MONOTONIC);
	count = __builtin_ia32_rdtsc();
	if (nanosleep(&ten_minutes, NULL) < 0)
		fail("nanosleep");
	printf("counted_ns %lld\n", (long long)__builtin_ia32_rdtscp(&processor) - count);
	printf("slept_ns %lld\n", now_ns(CLOCK_MONOTONIC) - before);

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		fail("getrandom");
	printf("random %016llx\n", number);
	printf("stack %p\n", (void *)&number);
	call_the_kernel();

	/* The host's own /proc lies there until then: the root is the host's file system. */
	if (mount("proc", "/proc", "proc", 0, NULL) < 0)
		fail("mounting /proc");
	if (unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS) < 0)
		fail("making namespaces");
	print_file("fastopen", "/proc/sys/net/ipv4/tcp_fastopen");
	print_file("congestion_controls", "/proc/sys/net/ipv4/tcp_available_congestion_control");
	print_file("memory", "/proc/meminfo");
	printf("trial done\n");
	end();
}
