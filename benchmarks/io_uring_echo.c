/*
 * The most that io_uring could save a node: an echo server that waits with epoll, reads and writes with one
 * system call each, beside one that receives with a multishot request into a ring of registered buffers and
 * submits the answers of one wakeup together.
 *
 *     cc -O2 -o target/io_uring_echo benchmarks/io_uring_echo.c && target/io_uring_echo
 *
 * The server has one processor and the driver another one. The driver keeps one request in flight on each of
 * 50 connections. The program prints the server's processor time for each request, for the sizes of a get and
 * of a put. It needs two processors and Linux 6.1 or later.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECTIONS = 50, BUFFERS = 256, BUFFER_BYTES = 2048, RING = 256 };
enum { GROUP = 1, TO_RECEIVE = 1, TO_SEND = 2 };

static void check(int good, const char *what) {
    if (!good) { perror(what); exit(1); }
}

static void pin(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

static void serve_epoll(int *sockets, int request, int answer) {
    static char in[BUFFER_BYTES], out[BUFFER_BYTES];
    int poll = epoll_create1(0), open = CONNECTIONS;
    int received[CONNECTIONS] = {0};
    for (int i = 0; i < CONNECTIONS; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = i};
        check(epoll_ctl(poll, EPOLL_CTL_ADD, sockets[i], &event) == 0, "epoll_ctl");
    }
    while (open > 0) {
        struct epoll_event events[CONNECTIONS];
        int count = epoll_wait(poll, events, CONNECTIONS, -1);
        for (int e = 0; e < count; e++) {
            int i = events[e].data.u32;
            /* A read that does not fill the buffer has emptied the socket. */
            ssize_t got = read(sockets[i], in, sizeof in);
            if (got <= 0) { open--; epoll_ctl(poll, EPOLL_CTL_DEL, sockets[i], 0); continue; }
            for (received[i] += got; received[i] >= request; received[i] -= request)
                check(write(sockets[i], out, answer) == answer, "write");
        }
    }
}

struct ring {
    int fd;
    unsigned *sq_head, *sq_tail, sq_mask, *cq_head, *cq_tail, cq_mask, pending;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
};

static struct ring set_up(void) {
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                         IORING_SETUP_CQSIZE,
                                .cq_entries = 4 * RING};
    struct ring ring = {.fd = syscall(SYS_io_uring_setup, RING, &p)};
    check(ring.fd >= 0, "io_uring_setup");
    size_t bytes = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    size_t sq_bytes = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    char *map = mmap(0, bytes > sq_bytes ? bytes : sq_bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
    check(map != MAP_FAILED, "mmap");
    ring.sqes = mmap(0, p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
    check(ring.sqes != MAP_FAILED, "mmap");
    ring.sq_head = (unsigned *)(map + p.sq_off.head);
    ring.sq_tail = (unsigned *)(map + p.sq_off.tail);
    ring.sq_mask = *(unsigned *)(map + p.sq_off.ring_mask);
    ring.cq_head = (unsigned *)(map + p.cq_off.head);
    ring.cq_tail = (unsigned *)(map + p.cq_off.tail);
    ring.cq_mask = *(unsigned *)(map + p.cq_off.ring_mask);
    ring.cqes = (struct io_uring_cqe *)(map + p.cq_off.cqes);
    unsigned *array = (unsigned *)(map + p.sq_off.array);
    for (unsigned i = 0; i < p.sq_entries; i++) array[i] = i;
    return ring;
}

static struct io_uring_sqe *next_request(struct ring *ring, int opcode, int fd, int what, int i) {
    unsigned tail = *ring->sq_tail;
    struct io_uring_sqe *sqe = &ring->sqes[tail & ring->sq_mask];
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = opcode;
    sqe->fd = fd;
    sqe->user_data = (unsigned long long)what << 32 | i;
    __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
    ring->pending++;
    return sqe;
}

static void receive(struct ring *ring, int i) {
    struct io_uring_sqe *sqe = next_request(ring, IORING_OP_RECV, i, TO_RECEIVE, i);
    sqe->flags = IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
    sqe->ioprio = IORING_RECV_MULTISHOT;
    sqe->buf_group = GROUP;
}

static void serve_io_uring(int *sockets, int request, int answer) {
    static char buffers[BUFFERS][BUFFER_BYTES], out[BUFFER_BYTES];
    struct ring ring = set_up();
    struct io_uring_buf_ring *given =
        mmap(0, BUFFERS * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE,
             MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    struct io_uring_buf_reg reg = {
        .ring_addr = (unsigned long long)given, .ring_entries = BUFFERS, .bgid = GROUP};
    check(syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_PBUF_RING, &reg, 1) == 0,
          "registering buffers");
    check(syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, sockets, CONNECTIONS) == 0,
          "registering sockets");
    for (int i = 0; i < BUFFERS; i++) {
        /* The tail of the ring overlays a reserved field of its first entry. */
        given->bufs[i].addr = (unsigned long long)buffers[i];
        given->bufs[i].len = BUFFER_BYTES;
        given->bufs[i].bid = i;
    }
    unsigned short tail = BUFFERS;
    __atomic_store_n(&given->tail, tail, __ATOMIC_RELEASE);
    int open = CONNECTIONS, received[CONNECTIONS] = {0};
    for (int i = 0; i < CONNECTIONS; i++) receive(&ring, i);
    while (open > 0) {
        int submitted = syscall(SYS_io_uring_enter, ring.fd, ring.pending, 1, IORING_ENTER_GETEVENTS, 0, 0);
        check(submitted >= 0, "io_uring_enter");
        ring.pending -= submitted;
        unsigned head = *ring.cq_head, end = __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE);
        for (; head != end; head++) {
            struct io_uring_cqe *cqe = &ring.cqes[head & ring.cq_mask];
            int i = (int)cqe->user_data, got = cqe->res;
            if (cqe->user_data >> 32 == TO_SEND) continue;
            if (cqe->flags & IORING_CQE_F_BUFFER) {
                unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
                struct io_uring_buf *back = &given->bufs[tail & (BUFFERS - 1)];
                back->addr = (unsigned long long)buffers[id];
                back->len = BUFFER_BYTES;
                back->bid = id;
                __atomic_store_n(&given->tail, ++tail, __ATOMIC_RELEASE);
            }
            if (got == 0 || (got < 0 && got != -ENOBUFS)) { open--; continue; }
            if (!(cqe->flags & IORING_CQE_F_MORE)) receive(&ring, i);
            if (got < 0) continue;
            for (received[i] += got; received[i] >= request; received[i] -= request) {
                struct io_uring_sqe *sqe = next_request(&ring, IORING_OP_SEND, i, TO_SEND, i);
                sqe->flags = IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
                sqe->addr = (unsigned long long)out;
                sqe->len = answer;
            }
        }
        __atomic_store_n(ring.cq_head, head, __ATOMIC_RELEASE);
    }
}

/* Keeps a request in flight on each connection until `operations` were answered. */
static void drive(int *sockets, int request, int answer, long operations) {
    static char in[BUFFER_BYTES], out[BUFFER_BYTES];
    int poll = epoll_create1(0), received[CONNECTIONS] = {0};
    for (int i = 0; i < CONNECTIONS; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        check(epoll_ctl(poll, EPOLL_CTL_ADD, sockets[i], &event) == 0, "epoll_ctl");
        check(write(sockets[i], out, request) == request, "write");
    }
    while (operations > 0) {
        struct epoll_event events[CONNECTIONS];
        /* The driver does not sleep, so that the server spends no time on waking it. */
        int count = epoll_wait(poll, events, CONNECTIONS, 0);
        for (int e = 0; e < count; e++) {
            int i = events[e].data.u32;
            ssize_t got = read(sockets[i], in, sizeof in);
            check(got > 0, "read");
            if ((received[i] += got) < answer) continue;
            received[i] -= answer;
            operations--;
            check(write(sockets[i], out, request) == request, "write");
        }
    }
}

static double microseconds(int uses_ring, int request, int answer, long operations) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    check(bind(listener, (struct sockaddr *)&address, length) == 0, "bind");
    check(listen(listener, CONNECTIONS) == 0, "listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    pid_t driver = fork();
    if (driver == 0) {
        pin(1);
        int sockets[CONNECTIONS];
        for (int i = 0; i < CONNECTIONS; i++) {
            sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
            check(connect(sockets[i], (struct sockaddr *)&address, length) == 0, "connect");
            setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        }
        drive(sockets, request, answer, operations);
        _exit(0);
    }
    pid_t server = fork();
    if (server == 0) {
        pin(0);
        int sockets[CONNECTIONS];
        for (int i = 0; i < CONNECTIONS; i++) {
            sockets[i] = accept(listener, 0, 0);
            setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            fcntl(sockets[i], F_SETFL, uses_ring ? 0 : O_NONBLOCK);
        }
        (uses_ring ? serve_io_uring : serve_epoll)(sockets, request, answer);
        _exit(0);
    }
    close(listener);
    struct rusage used;
    int status;
    waitpid(driver, &status, 0);
    check(status == 0, "the driver");
    wait4(server, &status, 0, &used);
    double seconds = used.ru_utime.tv_sec + used.ru_stime.tv_sec +
                     (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    return seconds * 1e6 / operations;
}

static int by_size(const void *a, const void *b) {
    return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b);
}

int main(void) {
    const struct { const char *name; int request, answer; } sizes[] = {
        {"get of 1 KiB", 40, 1100}, {"put of 1 KiB", 1100, 5}};
    enum { ROUNDS = 7, OPERATIONS = 300000 };
    printf("| sizes of | epoll us | io_uring us | ratio |\n| --- | --- | --- | --- |\n");
    for (int s = 0; s < 2; s++) {
        double epoll[ROUNDS], ring[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            epoll[round] = microseconds(0, sizes[s].request, sizes[s].answer, OPERATIONS);
            ring[round] = microseconds(1, sizes[s].request, sizes[s].answer, OPERATIONS);
        }
        qsort(epoll, ROUNDS, sizeof *epoll, by_size);
        qsort(ring, ROUNDS, sizeof *ring, by_size);
        printf("| %s | %.2f (%.2f..%.2f) | %.2f (%.2f..%.2f) | %.2f |\n", sizes[s].name, epoll[ROUNDS / 2],
               epoll[0], epoll[ROUNDS - 1], ring[ROUNDS / 2], ring[0], ring[ROUNDS - 1],
               ring[ROUNDS / 2] / epoll[ROUNDS / 2]);
    }
    return 0;
}
