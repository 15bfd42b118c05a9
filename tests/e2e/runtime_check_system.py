#!/usr/bin/env python3
"""chainio-runtime --check-system: what it says of the machine, of interfaces, and of what a process may do here."""
import errno
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import runs  # noqa: E402
from refused_call import IO_URING_SETUP, refuse  # noqa: E402
from runs import BUILD, expect  # noqa: E402

# A user of our own, whose locked memory nobody else has a part of.
LIMITED = ["prlimit", "--memlock=8388608:8388608", "setpriv", f"--reuid={os.getpid() + (1 << 24)}", "--regid=65534", "--clear-groups"]


def system_facts(*options, prefix=(), **more):
    """The exit code of --check-system, and what it says by name."""
    done = subprocess.run([*prefix, BUILD / "bin" / "chainio-runtime", "--check-system", "--json", *options], capture_output=True, text=True, **more)
    return done.returncode, {fact["name"]: fact for fact in json.loads(done.stdout)}


def test_check_system():
    code, facts = system_facts()
    expect("check-system: whatever is limited, it ends well", (code, {"SEND_ZC", "receive buffers", "XDP programs"} <= facts.keys()), (0, True))
    most = int(pathlib.Path("/proc/sys/net/core/rmem_max").read_text())
    expect("  what sockets hold", (facts["receive buffers"]["state"], f"holds {min(most >> 10, 4096)} KiB of 4096 " in facts["receive buffers"]["detail"]),
           ("ok" if most >= 4 << 20 else "limited", True))
    code, facts = system_facts(preexec_fn=lambda: refuse(IO_URING_SETUP, errno.EPERM))
    expect("  without io_uring no service is served", (code, facts["io_uring"]["state"]), (3, "missing"))
    code, facts = system_facts("--interface", "nosuch0")
    expect("  nor by an interface that is not there", (code, facts["interface nosuch0"]),
           (3, {"name": "interface nosuch0", "state": "missing", "detail": "there is no network interface 'nosuch0': `ip link` lists them", "remedy": "a daemon takes it once it is there"}))
    code, facts = system_facts("--interface", "lo")
    expect("  or that clients do not come by", (code, facts["interface lo"]["state"], facts["interface lo"]["detail"]), (3, "missing", "what this machine sends to itself"))
    expect("  refused: what it does not look at", runs.tool("chainio-runtime", "--check-system", "--interface", "lo", "--spec", "/nonexistent", "--port", "x=y", "--bind", "127.0.0.1"),
           (2, "", "chainio-runtime: --check-system looks at the machine, and at each --interface: it goes not with --spec, --bind, --port; `--check` looks at a spec and what is given with it\n"))
    if os.getuid() != 0:
        return print("skipped: what a user namespace's capabilities are worth: not run as root")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "-Ur"]
    if subprocess.run([*nobody, BUILD / "bin" / "chainio-runtime", "--version"], capture_output=True).returncode != 0:
        return print("skipped: what a user namespace's capabilities are worth: nobody may not have one, or not run the program")
    _, facts = system_facts(prefix=nobody)
    expect("  capabilities of a user namespace load no program", facts["BPF (chainc --verify)"],
           lambda fact: (fact["state"], fact["remedy"]) == ("limited", "CAP_BPF (not in a user namespace), or run as root") and fact["detail"].startswith(
               "this process may not load BPF programs: Operation not permitted"))
    _, facts = system_facts(prefix=[*LIMITED, "unshare", "-Ur"])
    expect("  nor lift they the limit of locked memory", facts["registered buffers"],
           lambda fact: fact["state"] == "limited" and fact["detail"].endswith(" MiB of 64 MiB could be registered; RLIMIT_MEMLOCK is 8192 KiB")
           and fact["remedy"].endswith(" or CAP_IPC_LOCK (not in a user namespace)"))
    if int(re.search(r"CapEff:\s*(\w+)", pathlib.Path("/proc/self/status").read_text())[1], 16) >> 14 & 1:
        _, facts = system_facts(prefix=LIMITED[:2])
        expect("  as root's own do", facts["registered buffers"]["detail"], "64 MiB of 64 MiB could be registered; RLIMIT_MEMLOCK is 8192 KiB, which CAP_IPC_LOCK lifts")


def test_right_behind_another():
    """What a process had locked counts for a moment after its end, against the limit of the one that its user starts next."""
    if os.getuid() != 0:
        return print("skipped: a daemon right behind another process of its user: not run as root, whom no limit holds")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        subprocess.run([BUILD / "bin" / "chainc", "std/kv.chain", "-o", folder / "kv.o"], check=True)
        (folder / "kv.o").chmod(0o644)
        daemon = BUILD / "bin" / "chainio-runtime"
        said = [subprocess.run([*LIMITED, "sh", "-c", f"{daemon} --check-system >/dev/null; exec {daemon} --spec {folder}/kv.o --check"], capture_output=True, text=True).stdout
                for _ in range(20)]
        expect("a daemon right behind another process of its user has a ring", [line for text in said for line in text.splitlines() if "refused" in line or "cannot be" in line], [])
        expect("  which serves", sum("service  kv" in text for text in said), 20)


if __name__ == "__main__":
    test_check_system()
    test_right_behind_another()
    sys.exit(runs.ended())
