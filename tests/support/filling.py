"""Fills disks."""


def fill(path):
    """Writes to a file until nothing more fits."""
    with open(path, "wb", buffering=0) as junk:
        for size in (1 << 20, 1 << 10, 1):
            try:
                while True:
                    junk.write(b"x" * size)
            except OSError:
                continue
