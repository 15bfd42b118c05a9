"""Items as the lines that `chainio store build --from` reads."""
# The backslash comes first, as there is one in the text of each other.
TEXTS = [(bytes([byte]), b"\\x%02x" % byte) for byte in (92, *range(32))]


def escaped(data):
    for byte, text in TEXTS:
        data = data.replace(byte, text)
    return data


def lines_of(held):
    """Of values with their flags, by key."""
    return b"".join(b"%s\t%s\t%d\n" % (escaped(key), escaped(value), flags) for key, (flags, value) in held.items())
