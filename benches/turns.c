/*
 * What it takes two processes on one core to take turns, as the virtual engine's kernel and its user space do:
 * by futexes in shared memory, and by sched_yield, alone and with a third process that computes.
 *
 *     gcc -O2 -o /tmp/turns benches/turns.c && /tmp/turns
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned int *turn;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* Gives the turn to `other` and waits for it to come back. */
static void pass(unsigned int own, unsigned int other, int yields)
{
	*turn = other;
	if (!yields)
		syscall(SYS_futex, turn, FUTEX_WAKE, 1, NULL, NULL, 0);
	while (*turn != own) {
		if (yields)
			sched_yield();
		else
			syscall(SYS_futex, turn, FUTEX_WAIT, other, NULL, NULL, 0);
	}
}

static void measure(const char *what, int yields, int busy, int turns)
{
	pid_t computing = 0, peer;
	double started;

	*turn = 0;
	if (busy && !(computing = fork()))
		for (;;)
			;
	peer = fork();
	if (!peer) {
		while (*turn != 1)
			sched_yield();
		for (;;)
			pass(1, 0, yields);
	}
	started = now_us();
	for (int i = 0; i < turns; i++)
		pass(0, 1, yields);
	printf("%-38s %9.2f us there and back\n", what, (now_us() - started) / turns);
	kill(peer, SIGKILL);
	waitpid(peer, NULL, 0);
	if (busy) {
		kill(computing, SIGKILL);
		waitpid(computing, NULL, 0);
	}
}

int main(void)
{
	cpu_set_t core;

	CPU_ZERO(&core);
	CPU_SET(sched_getcpu(), &core);
	sched_setaffinity(0, sizeof(core), &core);
	turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (turn == MAP_FAILED)
		return 1;
	setbuf(stdout, NULL);
	measure("futexes", 0, 0, 100000);
	measure("futexes, with a busy process", 0, 1, 1000);
	measure("sched_yield", 1, 0, 100000);
	measure("sched_yield, with a busy process", 1, 1, 500);
	return 0;
}
