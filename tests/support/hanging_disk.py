"""A disk whose syncs hang, for one process, as long as a file exists."""
import os
import shutil

from support import preload
from support.node import copy_data

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_while_it_hangs(void) {
    const char *path = getenv("DISK_HANGS_WHILE");
    while (path && access(path, F_OK) == 0)
        usleep(5000);
}

int fsync(int file) {
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_while_it_hangs();
    return real(file);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_while_it_hangs();
    return real(file);
}
"""


class HangingDisk:
    """The disk of one node. Writes to it while it hangs are lost when the power fails."""

    def __init__(self, folder, node):
        self.node = node
        self.switch = os.path.join(folder, "disk-hangs")
        self.synced = os.path.join(folder, "synced")
        library = preload.library(folder, "hanging_disk", SOURCE)
        node.environment = {"LD_PRELOAD": library, "DISK_HANGS_WHILE": self.switch}

    def hang(self):
        with open(self.switch, "w", encoding="utf-8"):
            pass
        # No sync succeeds from now on, so the disk keeps only its current content.
        copy_data(self.node.data_dir, self.synced)

    def lose_power(self):
        """Kills the process, and drops everything that was written since the disk hung."""
        self.node.kill()
        os.remove(self.switch)
        shutil.rmtree(self.node.data_dir)
        os.rename(self.synced, self.node.data_dir)
