/*
 * The first process of a kernel just built: does it keep virtual time, is its randomness
 * repeatable, and has it what a world needs? Prints "name value" lines and "trial done".
 *
 * `fastopen kernel build` boots it twice, and every line must be the same both times.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
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

int main(void)
{
	struct timespec ten_minutes = { .tv_sec = SLEEP_S };
	unsigned long long number;
	struct utsname kernel;
	long long before;

	if (uname(&kernel) < 0)
		fail("uname");
	printf("release %s\n", kernel.release);
	printf("started_ns %lld\n", now_ns(CLOCK_REALTIME));

	before = now_ns(CLOCK_MONOTONIC);
	if (nanosleep(&ten_minutes, NULL) < 0)
		fail("nanosleep");
	printf("slept_ns %lld\n", now_ns(CLOCK_MONOTONIC) - before);

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		fail("getrandom");
	printf("random %016llx\n", number);
	printf("stack %p\n", (void *)&number);

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
