"""A wall clock that is wrong for one process, by a library that the loader puts before the system's."""
from support import preload

SOURCE = r"""
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift_secs(void) {
    const char *text = getenv("CLOCK_SHIFT_SECS");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, clock, at);
    if (!failed && clock == CLOCK_REALTIME)
        at->tv_sec += shift_secs();
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    (void)zone;
    if (!failed) {
        at->tv_sec = now.tv_sec;
        at->tv_usec = now.tv_nsec / 1000;
    }
    return failed;
}
"""


compiler = preload.compiler


def environment(folder, secs):
    """Returns the environment of a process whose clock is `secs` seconds ahead, or behind if negative."""
    library = preload.library(folder, "shifted_clock", SOURCE)
    return {"LD_PRELOAD": library, "CLOCK_SHIFT_SECS": str(secs)}
