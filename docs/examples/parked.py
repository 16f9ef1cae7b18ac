"""Takes memory, parks it where no footprint shows it, takes it back and frees it.

usage: stageloadctl record -o parked.jsonl -- python3 parked.py [--mps] [GIB]

With --mps it is a tensor that PyTorch makes on the GPU of a Mac and moves to the CPU. Without, on Linux,
it is memory of this process that goes into a file without a name and a disk (memfd), which nothing maps:
the machine has given it away, and no process's footprint has it.
"""
import argparse
import mmap
import os
import subprocess
import time

PIECE = 64 * 1024 * 1024


def stage(name):
    subprocess.run(["stageloadctl", "mark", "--stage", name], check=True)


def look():
    time.sleep(3)  # for a few samples


def on_the_gpu(size):
    import torch

    stage("loaded")
    weights = torch.ones(size, dtype=torch.uint8, device="mps")
    torch.mps.synchronize()
    look()
    stage("parked")
    weights = weights.to("cpu")
    torch.mps.empty_cache()
    look()
    stage("touched")
    weights += 1
    look()
    stage("freed")
    del weights
    look()


def in_a_file(size):
    stage("loaded")
    weights = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    piece = os.urandom(PIECE)
    for at in range(0, size, PIECE):
        weights[at : at + PIECE] = piece
    look()
    stage("parked")
    file = os.memfd_create("parked")
    for at in range(0, size, PIECE):
        os.write(file, weights[at : at + PIECE])
        weights.madvise(mmap.MADV_DONTNEED, at, PIECE)
    weights.close()
    look()
    stage("touched")
    weights = mmap.mmap(file, size)
    for at in range(0, size, mmap.PAGESIZE):
        weights[at] = 1
    look()
    stage("freed")
    weights.close()
    os.close(file)
    look()


parser = argparse.ArgumentParser()
parser.add_argument("--mps", action="store_true")
parser.add_argument("gib", nargs="?", type=float, default=4)
options = parser.parse_args()
size = int(options.gib * 1024**3) // PIECE * PIECE
(on_the_gpu if options.mps else in_a_file)(size)
