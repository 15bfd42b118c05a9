"""Whether sources include the standard headers whose names they use: those of another libstdc++ include less of each other."""
import re

NAMES = {
    "algorithm": r"std::(?:min|max|clamp|sort|stable_sort|swap_ranges|find|find_if|copy|copy_n|fill|fill_n|equal|count|count_if|any_of|all_of|none_of|lower_bound|upper_bound|"
                 r"ranges::(?:find|any|all|none|sort|count|copy|fill|equal|min|max|contains|lower|upper|replace|search|unique|for_each|is_sorted|reverse|transform)\w*)\b",
    "array": r"std::array<", "atomic": r"std::atomic", "bit": r"std::(?:bit_\w+|popcount|count[lr]_\w+|has_single_bit)\b", "cassert": r"\bassert\(", "cerrno": r"\berrno\b",
    "cstdint": r"std::u?int(?:8|16|32|64|ptr)?_t\b", "cstdlib": r"std::(?:strtou?ll?|strtod|getenv|abort|free|malloc|calloc|exit)\b",
    "cstring": r"std::(?:mem(?:cpy|cmp|set|chr|move)|str(?:len|cmp|ncmp|chr|rchr|error|cpy|spn|cspn))\b", "expected": r"std::(?:un)?expected\b", "functional": r"std::function<",
    "limits": r"std::numeric_limits<", "map": r"std::map<", "memory": r"std::(?:unique|shared|weak)_ptr<", "optional": r"std::optional<", "set": r"std::set<", "span": r"std::span\b",
    "string": r"std::string\b", "thread": r"std::(?:this_)?thread\b", "unordered_map": r"std::unordered_map<", "variant": r"std::(?:variant<|visit\b|get_if\b)",
    "vector": r"std::vector<",
}
OF_C = {"cassert": "assert.h", "cerrno": "errno.h", "cstdint": "stdint.h", "cstdlib": "stdlib.h", "cstring": "string.h"}
TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)


def reached(root, path, seen):
    """The standard headers that a file of ours includes, by itself and by our headers."""
    text = path.read_text()
    found = set(re.findall(r"^#\s*include <([^>]+)>", text, re.M))
    for name in re.findall(r'^#\s*include "([^"]+)"', text, re.M):
        if name not in seen and (root / name).is_file():
            seen.add(name)
            found |= reached(root, root / name, seen)
    return found


def missing(root, paths):
    """A line for each header that a file uses the names of and does not reach."""
    for path in paths:
        code = TEXT.sub("", "".join(line for line in path.read_text().splitlines(True) if not line.lstrip().startswith("#")))
        there = reached(root, path, set())
        for header, names in NAMES.items():
            used = re.search(names, code)
            if used and header not in there and OF_C.get(header) not in there:
                yield f"{path.relative_to(root)}: uses {used[0].rstrip('<(')} without <{header}>"
