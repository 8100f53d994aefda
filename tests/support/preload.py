"""Libraries that the loader puts before the system's, so that one process sees another world."""
import os
import shutil
import subprocess


def compiler():
    """The machine's C compiler; None if it has none."""
    return shutil.which("cc")


def library(folder, name, source):
    """The library of this source, made in the folder when it is not there yet."""
    path = os.path.join(folder, name + ".so")
    if not os.path.exists(path):
        subprocess.run([compiler(), "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", path, "-ldl"],
                       input=source, text=True, check=True)
    return path
