"""A line's end between any two words: line_ends.py CHAINC FOLDER SPEC… It changes nothing, but for the places of
docs/language.md section 13: the value of `return`, the parts of a `reply`, the value of a function with `let`s."""
import pathlib
import re
import subprocess
import sys

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\w+|\.\.|=>|->|<<|>>|[<>=!]=|&&|\|\||\S')
BEGINS = set("let var if when match for goto next return emit fail prefetch reply skip break continue else".split())


def words(text):
    """(word, where it ends, whether it is the first of its line)"""
    line = -1
    for m in TOKEN.finditer(text):
        begins = text.rfind("\n", 0, m.start())
        yield m.group(), m.end(), begins != line
        line = begins


def gaps(text):
    in_reply, before = False, ""
    found = list(words(text))
    for (word, end, first), (after, _, _) in zip(found, found[1:]):
        if word == "reply" and (first or before == "{"):
            in_reply = True
        elif word == "}" or (first and word in BEGINS):
            in_reply = False
        if not in_reply and word != "return" and after not in ("(", "-"):
            yield end
        before = word


def main():
    chainc, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    count = 0
    for spec in sys.argv[3:]:
        canonical = subprocess.run([chainc, "--emit=chain", spec], capture_output=True, text=True, check=True).stdout
        paths = []
        for at in gaps(canonical):
            paths.append(folder / f"{at}.chain")
            paths[-1].write_text(canonical[:at] + "\n" + canonical[at:])
        ran = subprocess.run([chainc, "--fmt", "--in-place", *paths], capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            sys.exit(f"{spec}:\n{ran.stderr}")
        for path in paths:
            # Without empty lines, which --fmt keeps.
            if re.sub(r"\n\n+", "\n", path.read_text()) != re.sub(r"\n\n+", "\n", canonical):
                sys.exit(f"{path}: another meaning")
        count += len(paths)
    print(f"{count} line ends")


if __name__ == "__main__":
    main()
