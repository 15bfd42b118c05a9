"""tools/bench [NAME [--quick] [--json]]"""
import argparse
import sys

import compile_time
import inkernel
import kv
import lookup
import machine
import rings_rows
import unmodified
import xdp
from common import Trouble, print_json, print_table

BENCHMARKS = {"lookup": lookup, "compile": compile_time, "inkernel": inkernel, "kv": kv, "rings": rings_rows, "unmodified": unmodified, "xdp": xdp}


def main():
    parser = argparse.ArgumentParser(prog="tools/bench", description="Runs a benchmark; without a name, lists them.")
    parser.add_argument("name", nargs="?", choices=BENCHMARKS, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="under 60 seconds; inkernel: about 60 besides the boot")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.name is None:
        for name, module in BENCHMARKS.items():
            print(f"{name:<10} {module.__doc__.splitlines()[0]}")
        return 0
    try:
        result = BENCHMARKS[options.name].run(options.quick)
    except Trouble as trouble:
        print(f"tools/bench {options.name}: {trouble}", file=sys.stderr)
        return 3
    result.notes.extend(machine.notes())
    (print_json if options.json else print_table)(result)
    return 0 if result.verified else 1


if __name__ == "__main__":
    sys.exit(main())
