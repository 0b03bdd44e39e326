#!/usr/bin/env python3
"""Runs a command as on a processor with fewer instruction sets, so that AVX2 can be measured on a machine that has AVX-512.

    benchmarks/as_processor.py avx2|avx512|avx512bf16 COMMAND [ARGUMENT …]

    benchmarks/as_processor.py avx2 benchmarks/predict.py --network ptbLstm
    benchmarks/as_processor.py avx2 benchmarks/run.sh compare --model ptbLstm

`avx512bf16` hides AMX, `avx512` also bfloat16, `avx2` all of AVX-512. That holds for every program under the command, peers included. Caches,
clock and the speed of an instruction stay those of this machine. Needs a processor that lets CPUID fault (cpuid_fault in /proc/cpuinfo)
and a C compiler. A program that handles SIGSEGV itself may not run. limit_cpuid.c does it.
"""
import argparse
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = ROOT / "benchmarks/limit_cpuid.c"
LIBRARY = ROOT / "build/benchmarks/limit_cpuid.so"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instructions", choices=["avx2", "avx512", "avx512bf16"])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("COMMAND is missing")
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < SOURCE.stat().st_mtime:
        LIBRARY.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", SOURCE, "-o", LIBRARY], check=True)
    environment = os.environ | {"LD_PRELOAD": str(LIBRARY), "TRAINYARD_INSTRUCTIONS": options.instructions}
    try:
        os.execvpe(options.command[0], options.command, environment)
    except OSError as error:
        parser.exit(1, f"as_processor.py: {options.command[0]}: {error.strerror}\n")


if __name__ == "__main__":
    main()
