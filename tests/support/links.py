"""Links between nodes that can be cut and stalled: the connections from each node to each other node go
through a relay of their own."""
import asyncio
import threading
import time

from support import preload
from support.cluster import free_port

# Redirects connections to ports of loopback to other ports: "from=to,from=to".
SOURCE = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    static int (*real)(int, const struct sockaddr *, socklen_t);
    const char *map = getenv("RELAYED_PORTS");
    struct sockaddr_in there;
    if (!real)
        real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    if (!map || address->sa_family != AF_INET || length < sizeof there)
        return real(fd, address, length);
    memcpy(&there, address, sizeof there);
    while (map && *map) {
        char *end;
        long from = strtol(map, &end, 10), to = strtol(end + 1, &end, 10);
        if (from == ntohs(there.sin_port)) {
            there.sin_port = htons(to);
            break;
        }
        map = *end == ',' ? end + 1 : NULL;
    }
    return real(fd, (const struct sockaddr *)&there, sizeof there);
}
"""
CHUNK_BYTES = 1 << 16


class Link:
    """The connections from one node to another."""

    def __init__(self, to_port):
        self.port = free_port()
        self.to_port = to_port
        self.writers = set()
        self.is_cut = False
        # Cleared while bytes are held back.
        self.flows = asyncio.Event()
        self.flows.set()

    async def serve(self):
        await asyncio.start_server(self.accepted, "127.0.0.1", self.port)

    async def accepted(self, reader, writer):
        if self.is_cut:
            writer.transport.abort()
            return
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.to_port)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, there_writer}
        self.writers |= both
        try:
            await asyncio.gather(self.pump(reader, there_writer), self.pump(there_reader, writer))
        except asyncio.CancelledError:
            pass
        self.writers -= both

    async def pump(self, reader, writer):
        try:
            while chunk := await reader.read(CHUNK_BYTES):
                await self.flows.wait()
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    def cut(self):
        self.is_cut = True
        for writer in self.writers:
            writer.transport.abort()
        self.flows.set()

    def mend(self):
        self.is_cut = False
        self.flows.set()


class Links:
    """The links of a cluster whose nodes are not started yet. They run in a thread of their own."""

    def __init__(self, folder, nodes):
        self.loop = asyncio.new_event_loop()
        library = preload.library(folder, "relayed", SOURCE)
        ports = [int(node.flags[node.flags.index("--node") + 1].rpartition(":")[2]) for node in nodes]
        self.between = {}
        # Times at which connections were cut.
        self.cut_at = []
        for place, node in enumerate(nodes):
            to_others = {port: Link(port) for port in ports if port != ports[place]}
            self.between.update({(place, ports.index(port)): link
                                 for port, link in to_others.items()})
            relayed = ",".join("%d=%d" % (port, link.port) for port, link in to_others.items())
            node.environment = {"LD_PRELOAD": library, "RELAYED_PORTS": relayed}
        for link in self.between.values():
            self.loop.run_until_complete(link.serve())
        self.thread = threading.Thread(target=self.run_until_stopped, daemon=True)
        self.thread.start()

    def run_until_stopped(self):
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    def run(self, change):
        """Runs a change of the links in their thread."""
        self.loop.call_soon_threadsafe(change)

    def stall(self, link):
        self.run(link.flows.clear)

    def cut(self, link):
        self.cut_at.append(time.monotonic())
        self.run(link.cut)

    def mend(self, link):
        self.run(link.mend)

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
