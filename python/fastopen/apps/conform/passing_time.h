/*
 * Included before packetdrill's own source, which calls times(2) in a loop until a tick has passed. In the
 * virtual engine's kernel, time passes only while all processes sleep, so the loop would never end. Sleep first.
 */
#ifndef _GNU_SOURCE /* packetdrill's files define it after this header */
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
