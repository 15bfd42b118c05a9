"""Whether lit's RUN lines keep the exit codes that they check: what `%not` has found out is lost where a `;` follows it."""
import re

SUFFIXES = (".chain", ".yaml", ".test", ".lit")
# Quoted text may hold a `;`. Behind `||` or as `code=$?` something is made of the code.
LOST = re.compile(r"""%not [0-9]+ (?:'[^']*'|"[^"]*"|\|(?!\|)|[^|;'"])*;(?! *code=\$\?)""")


def lost(root, paths):
    """A line for each RUN line whose `%not` would not fail the test."""
    for path in paths:
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if "RUN:" in line and LOST.search(line):
                yield f"{path.relative_to(root)}:{number}: the `;` behind `%not` loses what it has found out: write `&&`"
