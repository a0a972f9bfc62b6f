"""Programs that want rights, the network, or files that are not theirs."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest

from evals.sandbox import Sandbox
from tests.evals.sandbox.conftest import Run, said

PROJECT = Path(__file__).parents[3]


def test_no_rights_are_left(run: Run) -> None:
    outcome = run("""
        import json, os
        with open("/proc/self/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        with open("/proc/self/uid_map") as users:
            outside = [int(line.split()[1]) + os.getuid() - int(line.split()[0]) for line in users]
        wanted = ("CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp", "Groups")
        print(json.dumps([[fields[name].strip() for name in wanted], os.getresuid(), outside]))
    """)
    fields, users, outside = json.loads(outcome.output)
    assert fields[:-1] == ["0" * 16, "0" * 16, "0" * 16, "0" * 16, "1", "2"]
    assert set(fields[-1].split()) <= {"65534"}
    assert 0 not in users
    assert 0 not in outside


@pytest.mark.parametrize(
    "attempt",
    [
        "os.setuid(0)",
        "os.setgid(0)",
        "os.chroot('/tmp')",
        "os.mknod('/tmp/disk', 0o60666, os.makedev(8, 0))",
        "os.nice(-1)",
        "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))",
        "socket.sethostname('other')",
        "time.clock_settime(time.CLOCK_REALTIME, 0)",
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
    ],
)
def test_rights_cannot_be_had(run: Run, attempt: str) -> None:
    outcome = run(f"import os, resource, socket, time\ntry: {attempt}\nexcept (OSError, ValueError): print('refused')")
    assert outcome.output == "refused\n", outcome


def test_limits_are_in_force(run: Run, sandbox: Sandbox) -> None:
    names = list(sandbox.limits.resources(10))
    outcome = run(f"""
        import json, resource
        print(json.dumps({{name: resource.getrlimit(getattr(resource, name)) for name in {names}}}))
    """)
    assert said(outcome) == {name: list(limits) for name, limits in sandbox.limits.resources(10).items()}


# Network


def test_there_is_no_network(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind(f"\0sandbox-{os.getpid()}-{time.monotonic_ns()}")
        hidden.listen()
        # Both can be reached, if not from the sandbox.
        socket.create_connection(server.getsockname()).close()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(hidden.getsockname())
        outcome = run(f"""
            import json, socket, urllib.request
            def unix():
                socket.socket(socket.AF_UNIX).connect({hidden.getsockname()!r})
            ways = dict(
                connect=lambda: socket.create_connection({server.getsockname()!r}, 1),
                udp=lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)),
                six=lambda: socket.socket(socket.AF_INET6),
                raw=lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
                netlink=lambda: socket.socket(socket.AF_NETLINK),
                names=lambda: socket.getaddrinfo("example.com", 80),
                web=lambda: urllib.request.urlopen("http://192.0.2.1", timeout=1),
                unix=unix,
            )
            worked = []
            for name, way in ways.items():
                try:
                    way()
                except OSError:
                    continue
                worked.append(name)
            print(json.dumps(worked))
        """)
    assert said(outcome) == []


# Files


def test_nothing_outside_can_be_written(run: Run) -> None:
    places = [
        "/",
        "/usr",
        "/usr/lib",
        "/home",
        "/root",
        "/etc",
        "/dev",
        "/proc",
        "/var/tmp",
        str(PROJECT),
        str(Path.home()),
    ]
    outcome = run(f"""
        import json, os
        written = []
        for place in {places} + [os.path.dirname(os.__file__)]:
            for way in (lambda path: open(path, "w"), os.mkdir, lambda path: os.symlink("/", path)):
                try:
                    way(place + "/written-by-a-program")
                except OSError:
                    continue
                written.append(place)
        for path in ("/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/program.py",
                     "/proc/1/oom_score_adj", "/proc/1/mem", os.__file__):
            for way in (lambda: open(path, "r+b").write(b"x"), lambda: os.chmod(path, 0o777), lambda: os.unlink(path)):
                try:
                    way()
                except OSError:
                    continue
                written.append(path)
        print(json.dumps(written))
    """)
    assert said(outcome) == []
    assert not [place for place in places if (Path(place) / "written-by-a-program").exists()]


def test_only_the_interpreter_can_be_seen(run: Run, sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    tmp_path.chmod(0o755)
    secret.chmod(0o644)
    outcome = run(f"""
        import json, os
        seen = []
        for folder, folders, files in os.walk("/"):
            folders[:] = [name for name in folders if os.path.join(folder, name) not in ("/proc", "/usr/lib")]
            seen += [os.path.join(folder, name) for name in files]
        readable = []
        for path in ("/etc/shadow", "/etc/passwd", "/etc/hostname", {str(secret)!r}, {str(PROJECT / "pyproject.toml")!r},
                     "/proc/1/root/etc/shadow", "/proc/1/environ", "/proc/1/mem", "/proc/1/fd/0", "/proc/kcore", "/dev/mem",
                     "/dev/vda", "/dev/sda", "/dev/kmsg", "/dev/tty"):
            try:
                open(path, "rb").read(1)
            except OSError:
                continue
            readable.append(path)
        print(json.dumps([readable, [path for path in seen if not path.startswith({sandbox.confinement.view.shown!r})]]))
    """)
    readable, other = json.loads(outcome.output.splitlines()[-1])
    assert readable == []
    assert set(other) == {"/program.py", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}


def test_no_packages_can_be_seen(run: Run) -> None:
    outcome = run("""
        import json, os
        found = [os.path.join(folder, name) for folder, folders, files in os.walk("/") for name in folders + files
                 if folder.endswith(("site-packages", "dist-packages"))]
        print(json.dumps(found))
    """)
    assert said(outcome) == []


def test_the_environment_stays_outside(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_TEST_SECRET", "open-sesame")
    outcome = run("""
        import glob, os
        for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline") + glob.glob("/proc/*/task/*/environ"):
            try:
                print(path, open(path, "rb").read())
            except OSError as error:
                print(path, error)
        print(dict(os.environ))
    """)
    assert outcome.status == "passed"
    assert "PYTHONHASHSEED" in outcome.output
    assert "open-sesame" not in outcome.output


def test_files_are_gone_with_their_program(run: Run) -> None:
    assert run("open('/tmp/left', 'w').write('x'); import os; print(os.listdir('/tmp'))").output == "['left']\n"
    assert run("import os; print(os.listdir('/tmp'))").output == "[]\n"
