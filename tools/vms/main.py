"""The command line of tools/vm."""
import argparse
import os
import pathlib
import signal
import sys

import archive
import guest
from place import CACHE, Unavailable

UNAVAILABLE = 120  # of tools/vm itself; the tests count it as a skip, with its last line as the reason


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="tools/vm", usage="%(prog)s [OPTIONS] KERNEL -- COMMAND…", description="Runs a command under another Linux kernel: a Debian package, booted by QEMU in software.",
        epilog="The exit code is the command's; 120: no such machine can run here, 124: the time was over, 125: the guest failed.")
    parser.add_argument("kernel", nargs="?", help=f"a line like 7.2, its newest release; `all`: {', '.join(archive.LINES)}; `matrix`: write docs/kernels.md")
    parser.add_argument("--list", action="store_true", help="the kernels of the archive and those fetched")
    parser.add_argument("--fetch", action="store_true", help="only fetch the kernel")
    parser.add_argument("--update", action="store_true", help="ask the archive for newer releases; else once a week")
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="boot and command (600)")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--show", metavar="FOLDER", type=lambda name: pathlib.Path(name).absolute(), action="append", default=[],
                        help="the guest sees this folder, read only, also where it lies below /tmp or /run; may be given again")
    parser.add_argument("--icount", action="store_true", help="the guest's clock counts instructions, a nanosecond each, and the time it is idle")
    parser.add_argument("--console", metavar="FILE", help="write the guest's console there")
    here = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:here])
    options.command = arguments[here + 1:]
    options.cwd = os.getcwd()
    if not options.list and options.kernel is None:
        parser.error("no kernel: name one, or `all`; --list shows them")
    if options.kernel not in (None, "matrix") and not options.command and not options.fetch:
        parser.error("no command: tools/vm KERNEL -- COMMAND…")
    return options


def print_list(options):
    archive.update(options.update)
    held, here = archive.releases(), archive.cached()
    print("line   newest in the archive        fetched")
    for line in sorted({*held, *here}, key=archive.order):
        newest = held.get(line, ["not in the archive"])[0]
        print(f"{line:<6} {newest:<28} {', '.join(kernel.name for kernel in here.get(line, [])) or '-'}")
    print(f"`all` is {', '.join(archive.LINES)}; fetched kernels are in {CACHE / 'kernels'}")
    return 0


def run_lines(options):
    """The first exit code that is not 0 counts; every kernel has its turn."""
    result = 0
    lines = archive.LINES if options.kernel == "all" else (options.kernel,)
    for line in lines:
        kernel = archive.kernel_of(line, options.update)
        if len(lines) > 1 or options.fetch:
            print(f"== {kernel.name}", flush=True)
        code = 0 if options.fetch else guest.run(kernel, options.command, options)
        if len(lines) > 1 and code != 0:
            print(f"== {kernel.name}: exit code {code}", flush=True)
        result = result or code
    return result


def stop(number, _):
    if "report" in sys.modules:  # what the matrix runs is in sessions of its own
        sys.modules["report"].stop_all(signal.SIGTERM)
    sys.exit(128 + number)  # the guest is ended on the way out


def run(options):
    if options.list:
        return print_list(options)
    if options.kernel == "matrix":
        import matrix
        return matrix.write(options)
    return run_lines(options)


def main(arguments):
    options = parse(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        code = run(options)
        sys.stdout.flush()
        return code
    except Unavailable as error:
        print(f"vm: no kernel can be booted here: {error}", file=sys.stderr)
        return UNAVAILABLE
    except BrokenPipeError:  # nobody reads on, as behind `head`; the guest has been ended on the way here
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
