"""Libraries that the loader puts before the system's, to change system calls for one process."""
import os
import shutil
import subprocess


def compiler():
    """Returns the path of the C compiler; None if there is no compiler."""
    return shutil.which("cc")


def library(folder, name, source):
    """Returns the path of the library with this source. Builds it if necessary."""
    path = os.path.join(folder, name + ".so")
    if not os.path.exists(path):
        subprocess.run([compiler(), "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", path, "-ldl"],
                       input=source, text=True, check=True)
    return path
