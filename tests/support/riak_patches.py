"""Changes to the installed Riak client for Python that today's Python needs.

The client's last release is of 2016. What it imports has since moved or gone: the abstract
classes of `collections` moved to `collections.abc` (Python 3.10), `distutils` went in 3.12 and
`cgi` in 3.13, and the ways in which it made sockets of TLS in 3.7 and 3.12. Its Protocol Buffers
modules were generated for a library of that time; they are made anew from the message
descriptions that they contain. Nothing that it sends or understands is changed.

Each change names a file, the text it replaces and how often that text occurs; a file that does
not fit stops the installation, so that another release is never patched by accident.
"""
import ast
import glob
import hashlib
import os

COMPAT_MODULE = "_today.py"
COMPAT_TEXT = '''"""What the client used of modules that Python no longer has."""
import email.message
import re


class LooseVersion:
    """A version that compares by its numbers."""

    def __init__(self, text):
        self.vstring = text
        self.numbers = [int(part) for part in re.findall(r"\\d+", text)]

    def __eq__(self, other):
        return self.numbers == other.numbers

    def __lt__(self, other):
        return self.numbers < other.numbers

    def __le__(self, other):
        return self.numbers <= other.numbers

    def __gt__(self, other):
        return self.numbers > other.numbers

    def __ge__(self, other):
        return self.numbers >= other.numbers

    def __str__(self):
        return self.vstring


def parse_header(line):
    """The main value and the parameters of a header such as Content-Type."""
    message = email.message.Message()
    message["content-type"] = line
    parameters = message.get_params()
    return parameters[0][0], dict(parameters[1:])
'''

# (file, text, replacement, occurrences)
CHANGES = [
    ("util.py", "from collections import Mapping", "from collections.abc import Mapping", 1),
    ("mapreduce.py", "from collections import Iterable, namedtuple",
     "from collections import namedtuple\nfrom collections.abc import Iterable", 1),
    ("codecs/__init__.py", ",\n                             verbose=False)", ")", 1),
    ("client/index_page.py", "from collections import namedtuple, Sequence",
     "from collections import namedtuple\nfrom collections.abc import Sequence", 1),
    ("datatypes/register.py", "from collections import Sized",
     "from collections.abc import Sized", 1),
    ("datatypes/map.py", "from collections import Mapping",
     "from collections.abc import Mapping", 1),
    ("datatypes/set.py", "import collections\n", "import collections.abc\n", 1),
    ("datatypes/set.py", "class Set(collections.Set,", "class Set(collections.abc.Set,", 1),
    ("datatypes/set.py", "new_value, collections.Iterable)",
     "new_value, collections.abc.Iterable)", 1),
    ("transports/feature_detect.py", "from distutils.version import LooseVersion",
     "from riak._today import LooseVersion", 1),
    ("transports/http/stream.py", "from cgi import parse_header",
     "from riak._today import parse_header", 1),
    ("codecs/http.py", "from cgi import parse_header",
     "from riak._today import parse_header", 1),
    # Since Python 3.7 only a context can make TLS sockets.
    ("transports/tcp/connection.py", """ssl.SSLSocket(sock=self._socket,
                                               keyfile=credentials.pkey_file,
                                               certfile=credentials.cert_file,
                                               cert_reqs=ssl.CERT_REQUIRED,
                                               ca_certs=credentials.
                                               cacert_file,
                                               ciphers=credentials.ciphers,
                                               server_hostname=host)
                    ssl_socket.context = ssl_ctx""",
     "ssl_ctx.wrap_socket(self._socket, server_hostname=host)", 1),
    ("transports/http/__init__.py", """ssl.SSLSocket(sock=sock,
                                      keyfile=self.credentials.pkey_file,
                                      certfile=self.credentials.cert_file,
                                      cert_reqs=ssl.CERT_REQUIRED,
                                      ca_certs=self.credentials.cacert_file,
                                      ciphers=self.credentials.ciphers,
                                      server_hostname=self.host)
            self.sock.context = ssl_ctx""",
     "ssl_ctx.wrap_socket(sock, server_hostname=self.host)", 1),
    # Since Python 3.12 an HTTPS connection does not accept file names as arguments.
    ("transports/http/__init__.py", """port=port,
                         key_file=credentials._pkey_file,
                         cert_file=credentials._cert_file)""", "port=port)", 1),
]

MESSAGES_MODULE = '''"""Messages of Riak's protocol, built from their descriptions when imported."""
from google.protobuf import descriptor_pool
from google.protobuf.internal import builder
{imports}
DESCRIPTOR = descriptor_pool.Default().AddSerializedFile({description!r})
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, {module!r}, globals())
'''


def recipe():
    """Returns a text that differs if the changes differ."""
    everything = repr((COMPAT_TEXT, CHANGES, MESSAGES_MODULE))
    return hashlib.sha256(everything.encode()).hexdigest()


def apply(package):
    """Changes the package in the folder `package` in place."""
    with open(os.path.join(package, COMPAT_MODULE), "w", encoding="utf-8") as handle:
        handle.write(COMPAT_TEXT)
    for name, old, new, count in CHANGES:
        path = os.path.join(package, name)
        with open(path, encoding="utf-8") as handle:
            text = handle.read()
        if text.count(old) != count:
            raise ValueError("%s: expected %r %d times, found it %d times"
                             % (path, old, count, text.count(old)))
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text.replace(old, new))
    for path in glob.glob(os.path.join(package, "pb", "*_pb2.py")):
        rebuild_messages(path)


def rebuild_messages(path):
    """Replaces a generated module by one that today's Protocol Buffers library can load."""
    with open(path, encoding="utf-8") as handle:
        tree = ast.parse(handle.read())
    descriptions = [keyword.value.value for node in ast.walk(tree) if isinstance(node, ast.Call)
                    for keyword in node.keywords if keyword.arg == "serialized_pb"]
    if len(descriptions) != 1:
        raise ValueError("%s: expected one message description, found %d"
                         % (path, len(descriptions)))
    imports = ["import " + name.name for node in tree.body if isinstance(node, ast.Import)
               for name in node.names if name.name.startswith("riak.")]
    module = "riak.pb." + os.path.basename(path)[:-len(".py")]
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(MESSAGES_MODULE.format(imports="\n".join(imports), module=module,
                                            description=descriptions[0].encode("latin-1")))
