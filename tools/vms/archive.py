"""Debian's kernels: found and fetched by apt, with its signature checks, from lists of our own. Nothing is installed, and
nothing of the machine's own apt changes."""
import fcntl
import functools
import os
import re
import shutil
import subprocess
import tempfile
import time

from place import CACHE, Unavailable, last_line, locked

MIRROR = os.environ.get("CHAINIO_MIRROR", "http://deb.debian.org/debian")
SECURITY = os.environ.get("CHAINIO_SECURITY_MIRROR", "http://deb.debian.org/debian-security")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = [(MIRROR, "bookworm"), (SECURITY, "bookworm-security"), (MIRROR, "trixie"), (SECURITY, "trixie-security"),
          (MIRROR, "trixie-backports")]
LINES = ("6.1", "6.12", "7.2")  # what `all` means; any other line that the archive holds can be named
in_use = []  # files of kernels, locked
FRESH = 7 * 24 * 3600  # seconds for which the archive is not asked again


def apt_files():
    """A configuration of our own: the machine's ways to the network, none of its sources, pins or hooks."""
    apt = CACHE / "apt"
    for folder in ("lists/partial", "cache/archives/partial", "empty"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    sources = "".join(f"deb [arch=amd64 signed-by={KEYRING}] {mirror} {suite} main\n" for mirror, suite in SUITES)
    (apt / "sources.list").write_text(sources)
    known = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout.splitlines()
    network = [line for line in known if line.startswith(("Acquire::http", "Acquire::https", "Acquire::ftp"))]
    settings = [f'Dir::Etc::sourcelist "{apt}/sources.list";', f'Dir::Etc::sourceparts "{apt}/empty";', 'Dir::Etc::main "/dev/null";',
                f'Dir::Etc::parts "{apt}/empty";', f'Dir::Etc::preferencesparts "{apt}/empty";', 'Dir::Etc::preferences "/dev/null";',
                f'Dir::State::lists "{apt}/lists";', f'Dir::Cache "{apt}/cache";', 'APT::Architecture "amd64";',
                'Acquire::Retries "2";', 'Acquire::Languages "none";', 'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";']
    if os.geteuid() == 0:
        settings.append('APT::Sandbox::User "root";')
    (apt / "apt.conf").write_text("\n".join(network + settings) + "\n")
    return apt


def apt(program, *arguments, cwd=None):
    environment = {**os.environ, "APT_CONFIG": str(CACHE / "apt" / "apt.conf"), "LC_ALL": "C"}
    return subprocess.run([program, *arguments], capture_output=True, text=True, cwd=cwd, env=environment)


def update(force=False):
    """Reads the archive's lists anew when they are old. Where it cannot be reached, older lists serve."""
    for needed in ("apt-get", "apt-config", "dpkg-deb"):
        if shutil.which(needed) is None:
            raise Unavailable(f"kernels come as Debian packages, and {needed} is missing here")
    if not os.path.exists(KEYRING):
        raise Unavailable(f"{KEYRING} is missing: install debian-archive-keyring")
    stamp = apt_files() / "updated"
    if not force and stamp.exists() and time.time() - stamp.stat().st_mtime < FRESH:
        return
    done = apt("apt-get", "-qq", "--error-on=any", "update")
    if done.returncode == 0:
        stamp.touch()
    elif not stamp.exists():
        raise Unavailable(f"the Debian archive cannot be read: {last_line(done.stderr)}")


def order(version):
    """Sorts Debian's kernel releases: numbers as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", version)]


@functools.cache
def releases():
    """{line: its releases in the archive, newest first}; a release is what `uname -r` prints."""
    named = re.compile(r"linux-image-(((\d+)\.(\d+))[^ ]*-amd64)$")
    listed = apt("apt-cache", "pkgnames", "linux-image-").stdout.split()
    found = {}
    for package in listed:
        match = named.match(package)
        if match and re.search(r"-(cloud|rt)-|-unsigned|-dbg", package) is None and re.match(r"\d+\.\d+\.\d", match[1]):
            found.setdefault(match[2], []).append(match[1])
    return {line: sorted(names, key=order, reverse=True) for line, names in found.items()}


def packages_of(release):
    """The packages that hold the kernel and its modules: one up to 6.12, more since."""
    shown = apt("apt-cache", "depends", "--no-recommends", "--no-suggests", f"linux-image-{release}").stdout
    parts = re.findall(rf"Depends: (linux-(?:binary|modules)-{re.escape(release)})\s", shown)
    return [f"linux-image-{release}", *parts]


def put_in_place(tree, kernel, release):
    """Every package's layout to one: vmlinuz and lib/modules/RELEASE, which is where modprobe and virtme-ng look."""
    (kernel / "lib" / "modules").mkdir(parents=True)
    for modules in (tree / "usr" / "lib" / "modules" / release, tree / "lib" / "modules" / release):
        if modules.is_dir():
            modules.rename(kernel / "lib" / "modules" / release)
            break
    for image in (tree / "boot" / f"vmlinuz-{release}", kernel / "lib" / "modules" / release / "vmlinuz"):
        if image.exists():
            shutil.copy(image, kernel / "vmlinuz")
            break
    (kernel / "usr").mkdir()
    (kernel / "usr" / "lib").symlink_to("../lib")
    (kernel / "release").write_text(release + "\n")


def unpack(packages, work):
    """Downloads packages and unpacks them into work/tree."""
    (work / "debs").mkdir()
    done = apt("apt-get", "-qq", "download", *packages, cwd=work / "debs")
    if done.returncode != 0:
        raise Unavailable(f"{packages[0]} cannot be fetched: {last_line(done.stderr)}")
    for package in (work / "debs").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, work / "tree"], check=True)


def busybox():
    """A static busybox, which is what the guest's first moments run. Installing the package would remove `busybox`."""
    where = CACHE / "busybox"
    with locked("archive"):
        if where.exists():
            return where
        update()
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="fetch-") as name:
            tree = CACHE / name / "tree"
            unpack(["busybox-static"], CACHE / name)
            found = [path for path in (tree / "bin" / "busybox", tree / "usr" / "bin" / "busybox") if path.exists()]
            if not found:
                raise Unavailable("the package busybox-static holds no busybox where one is expected")
            found[0].rename(where)
    return where


def fetch(release, where):
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="fetch-") as name:
        work = CACHE / name
        unpack(packages_of(release), work)
        kernel = work / "kernel"
        put_in_place(work / "tree", kernel, release)
        if not (kernel / "vmlinuz").exists() or not (kernel / "lib" / "modules" / release).is_dir():
            raise Unavailable(f"linux-image-{release} holds no kernel where one is expected")
        # Newer packages lack the lists of what is built in, about which depmod warns.
        subprocess.run(["depmod", "-b", kernel, release], check=True, stderr=subprocess.DEVNULL, env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"})
        kernel.rename(where)


def cached():
    """{line: folders of kernels that were fetched, newest first}."""
    found = {}
    for kernel in sorted((CACHE / "kernels").glob("*/release"), key=lambda path: order(path.parent.name), reverse=True):
        line = ".".join(kernel.parent.name.split(".")[:2])
        found.setdefault(line, []).append(kernel.parent)
    return found


def newest(line, refresh):
    """The folder of the newest kernel of a line in the archive, fetched when it is not here yet; older ones are removed."""
    update(refresh)
    held = releases()
    if not held:
        raise Unavailable("the Debian archive's lists hold no kernel")
    if line not in held:
        there = f"the archive holds no kernel {line}; it holds {', '.join(sorted(held, key=order))}"
        if line not in LINES:
            raise Unavailable(there)
        raise Unavailable(f"{there}: replace {line} in LINES of tools/vms/archive.py and where tests name it, then `tools/vm matrix` writes docs/kernels.md anew")
    where = CACHE / "kernels" / held[line][0]
    if not where.exists():
        fetch(held[line][0], where)
    for older in cached().get(line, []):
        if older != where and not is_in_use(older):
            shutil.rmtree(older)
    return where


def is_in_use(kernel):
    """Whether another process runs it, or is about to."""
    with open(kernel / "release") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def kept(kernel):
    """The kernel; nobody removes it as long as this process lives."""
    in_use.append(open(kernel / "release"))
    fcntl.flock(in_use[-1], fcntl.LOCK_SH)
    return kernel


def kernel_of(line, refresh=False):
    """The folder of the newest kernel of a line. One that was fetched before serves where the archive cannot give it."""
    with locked("archive"):
        (CACHE / "kernels").mkdir(parents=True, exist_ok=True)
        try:
            return kept(newest(line, refresh))
        except Unavailable:
            if line in cached():
                return kept(cached()[line][0])
            raise
