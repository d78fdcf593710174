/*
 * Included ahead of packetdrill's own source. It asks times(2) again and again until a tick has passed, for ever
 * where computing takes no time: in the virtual engine's kernel time passes only while all sleep.
 */
#ifndef _GNU_SOURCE /* the files that want it define it too late */
#define _GNU_SOURCE
#endif
#include <sys/times.h>
#include <unistd.h>

static inline clock_t times_after_a_while(struct tms *buffer)
{
	usleep(100);
	return times(buffer);
}
#define times(buffer) times_after_a_while(buffer)
