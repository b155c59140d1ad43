"""The first program inside: ``python boot.py AGENT`` starts a zipapp as ``python AGENT`` would, but sooner.

Python itself does that with ``runpy``, whose imports take 6 to 20 ms in gVisor, and looks through the zip, which takes
another. So the code of its main module is taken from where zipmain.py says that it is. Runs on Python 3.9+.
"""

import sys
from marshal import loads
from posix import O_RDONLY, close, open, read
from zipimport import zipimporter

del sys.argv[0]
sys.path.insert(0, sys.argv[0])
fd = open(sys.argv[0], O_RDONLY)
head = read(fd, 47)  # 30 bytes of zip and the member's name; the magic number; the size of the code that follows
if head[30:43] == b"preloaded" + sys.modules["_frozen_importlib_external"].MAGIC_NUMBER:
    code = loads(read(fd, int.from_bytes(head[43:47], "little")))  # noqa: S302 - of the file that is to be run anyway
else:
    code = zipimporter(sys.argv[0]).get_code("__main__")
close(fd)
exec(code)  # noqa: S102 - in this module, which is ``__main__``
