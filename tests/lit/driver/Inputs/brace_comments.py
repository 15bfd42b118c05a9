"""A comment behind a brace, with the rest on the next line: brace_comments.py CHAINC SPEC FOLDER. One spec for each brace of
SPEC, and one for all of them: what --fmt makes of it has the comment, keeps its meaning, and is canonical."""
import pathlib
import re
import subprocess
import sys


def main():
    chainc, spec, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    text = spec.read_text()
    # Braces outside of strings and comments.
    braces = [m.end() for m in re.finditer(r'"(?:\\.|[^"\\])*"|#[^\n]*|[{}]', text) if m.group() in "{}"]

    def commented(places):
        parts, at = [], 0
        for number, place in enumerate(places):
            parts += [text[at:place], f"  # behind {number}\n"]
            at = place
        return "".join(parts) + text[at:]

    def canonical(path):
        return subprocess.run([chainc, "--emit=chain", path], capture_output=True, text=True, check=True).stdout

    made = {"all": braces} | {str(i): [place] for i, place in enumerate(braces)}
    paths = []
    for name, places in made.items():
        paths.append(folder / f"{name}.chain")
        paths[-1].write_text(commented(places))
    subprocess.run([chainc, "--fmt", "--in-place", *paths], check=True)
    again = subprocess.run([chainc, "--fmt=check", *paths], capture_output=True, text=True, check=False)
    if again.returncode != 0:
        sys.exit(f"not canonical any more:\n{again.stderr}")
    for path, places in zip(paths, made.values()):
        printed = path.read_text()
        if sorted(map(int, re.findall(r"# behind (\d+)$", printed, flags=re.M))) != list(range(len(places))):
            sys.exit(f"{path}: a comment is missing, or there twice")
    if canonical(paths[0]) != canonical(spec):
        sys.exit("the comments change the meaning")
    print(f"{len(braces)} braces")


if __name__ == "__main__":
    main()
