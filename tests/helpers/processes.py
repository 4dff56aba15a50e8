"""Processes that start at once: each is forked from one that has imported everything and done
nothing else. Importing torch takes seconds, and what is to be seen here is what a process as a
whole does: signals, exit codes, streams that are closed, files that two of them want."""

import atexit
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

STREAMS = ("stdin", "stdout", "stderr")
CLOSED = "closed"
"""A stream that a process does not have, as after `>&-` in a shell."""
UNREAD = "unread"
"""A pipe whose reader has left, as in `bnt streams | true`."""


class Process:
    """A process of its own: `bnt` with these arguments, or a script. Like `subprocess.Popen`, as
    far as tests need it; its output is text."""

    def __init__(
        self,
        *arguments,
        cwd,
        script=None,
        environment=(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ):
        streams = {"stdout": stdout, "stderr": stderr}
        request = {
            "arguments": list(map(str, arguments)),
            "cwd": str(cwd),
            "script": script,
            "environment": {**os.environ, **dict(environment)},
            "closed": [name for name, how in streams.items() if how == CLOSED],
        }
        self.stdout, out = _stream(stdout)
        self.stderr, err = _stream(stderr)
        status, report = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        socket.send_fds(_server(), [json.dumps(request).encode()], [nothing, out, err, report])
        for each in (nothing, out, err, report):
            os.close(each)
        self.returncode = None
        self._status = os.fdopen(status, encoding="utf-8")
        self.pid = int(self._status.readline())

    def wait(self, timeout=None):
        """The exit code, or minus the signal that ended it."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            self.returncode = int(self._status.read())
        return self.returncode

    def poll(self):
        """The same, or None while it works."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number):
        """Unless it has ended, so that nobody else gets it."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """At once, whatever it does."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        """What it writes until its end."""
        with ThreadPoolExecutor(2) as pool:
            texts = [each and pool.submit(each.read) for each in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        return tuple(text and text.result() for text in texts)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.kill()
        self.wait()
        for each in (self.stdout, self.stderr, self._status):
            if each is not None:
                each.close()


def completed(*arguments, timeout=300, **how):
    """Run one to its end."""
    with Process(*arguments, **how) as process:
        out, err = process.communicate(timeout)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def _stream(how):
    """Our end of a stream, if it is a pipe, and the process's own."""
    if how == subprocess.PIPE:
        ours, theirs = os.pipe()
        return os.fdopen(ours, encoding="utf-8", newline=""), theirs
    if how == UNREAD:
        ours, theirs = os.pipe()
        os.close(ours)
        return None, theirs
    path = os.devnull if how in (subprocess.DEVNULL, CLOSED) else how
    return None, os.open(path, os.O_WRONLY)


@functools.cache
def _server():
    """The process to fork from, by the socket that it hears."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = "from helpers.processes import serve; work = serve(); work()"
    path = os.pathsep.join(filter(None, sys.path))
    server = subprocess.Popen(
        [sys.executable, "-c", code, str(theirs.fileno())],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    atexit.register(lambda: (ours.close(), server.wait()))
    return ours


def serve():
    """Hear of processes to start. Only in one that was forked does this end, with its work, so that
    its end is that of any Python."""
    import sklearn.datasets
    import sklearn.manifold  # noqa: F401

    import bntricks.cli
    import bntricks.model.create
    import bntricks.model.learn
    import bntricks.report
    import bntricks.runs.folder  # noqa: F401

    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    server = socket.socket(fileno=int(sys.argv[1]))
    while True:
        message, descriptors, *_ = socket.recv_fds(server, 2**20, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            server.close()
            return _watched(json.loads(message), *descriptors)
        for each in descriptors:
            os.close(each)


def _watched(request, *descriptors):
    """The work of a new process; the process that starts it reports how it ends."""
    *streams, report = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process = os.fork()
    if process == 0:
        os.close(report)
        return functools.partial(_work, request, streams)
    for each in streams:
        os.close(each)
    os.write(report, f"{process}\n".encode())
    _, status = os.waitpid(process, 0)
    os.write(report, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _work(request, streams):
    for number, (name, stream) in enumerate(zip(STREAMS, streams, strict=True)):
        os.dup2(stream, number)
        os.close(stream)
        if name in request["closed"]:
            os.close(number)
            setattr(sys, name, None)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["bnt", *request["arguments"]]
    if request["script"] is not None:
        exec(compile(request["script"], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = str(Path.cwd())
        runpy.run_module("bntricks", run_name="__main__", alter_sys=True)
