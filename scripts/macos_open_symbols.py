#!/usr/bin/env python3
"""Looks through programs for macOS that scripts/macos_cross_check.sh has linked.

usage: macos_open_symbols.py [--complete NAME]... PROGRAM...

Programs that need gRPC and the like are linked with the symbols of these left open, since there is no
library for macOS here. So the linker does not see when one of ours is missing, such as the macOS half
of something; this does. A program that is named by --complete may have no open symbol at all, and
need nothing but libSystem and CoreFoundation. Exits with 1 when something is missing.
"""
import argparse
import os
import re
import struct
import sys

MH_MAGIC_64 = 0xFEEDFACF
LC_SYMTAB = 0x2
LC_LOAD_DYLIB = 0xC
N_STAB, N_TYPE, N_EXT = 0xE0, 0x0E, 0x01  # of n_type; an N_TYPE of 0 is undefined
OPEN_ORDINALS = {0xFE, 0}  # of the library that has it: "look it up"; zig writes 0 there

ALWAYS_THERE = {"libSystem.B.dylib", "CoreFoundation"}
# A function or object, or a vtable and its like, whose outermost namespace is ours.
OURS = re.compile(r"__Z(T[VTIS]|GV|TC|Thn?\d+_|Tv0_n\d+_)?N[KVRO]*9stageload\d")


def string_at(data, offset):
    return data[offset : data.index(b"\0", offset)].decode("utf-8", "replace")


def read_program(path):
    """The names of its libraries, and its symbols that no library is known to have."""
    with open(path, "rb") as file:
        data = file.read()
    magic, _, _, _, commands = struct.unpack_from("<IIIII", data)
    if magic != MH_MAGIC_64:
        raise ValueError(f"{path} is no 64-bit Mach-O file")
    libraries, open_symbols = set(), set()
    offset = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, offset)
        if command == LC_LOAD_DYLIB:
            (name,) = struct.unpack_from("<I", data, offset + 8)
            libraries.add(os.path.basename(string_at(data, offset + name)))
        elif command == LC_SYMTAB:
            symbols, count, strings, _ = struct.unpack_from("<IIII", data, offset + 8)
            for i in range(count):
                name, kind, _, description, _ = struct.unpack_from("<IBBHQ", data, symbols + 16 * i)
                undefined = kind & N_EXT and not kind & N_STAB and not kind & N_TYPE
                if undefined and description >> 8 in OPEN_ORDINALS:
                    open_symbols.add(string_at(data, strings + name))
        offset += size
    return libraries, open_symbols


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[2][len("usage: ") :])
    parser.add_argument("--complete", action="append", default=[])
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    missing = set(options.complete) - {os.path.basename(path) for path in options.program}
    wrong = [f"{name}: not linked" for name in sorted(missing)]
    for path in options.program:
        libraries, symbols = read_program(path)
        name = os.path.basename(path)
        if name in options.complete:
            wrong += [f"{name}: needs {library}" for library in sorted(libraries - ALWAYS_THERE)]
            wrong += [f"{name}: nothing defines {symbol}" for symbol in sorted(symbols)]
        else:
            wrong += [f"{name}: nothing defines {symbol}" for symbol in sorted(symbols) if OURS.match(symbol)]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
