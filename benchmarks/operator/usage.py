"""CPU seconds and resident memory of processes, from /proc."""

import os
import pathlib

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """User and system time that the process has used so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _status_mebibytes(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{pid}/status has no {field}")


def resident_mebibytes(pid):
    return _status_mebibytes(pid, "VmRSS")


def peak_resident_mebibytes(pid):
    return _status_mebibytes(pid, "VmHWM")


class CpuMeter:
    """CPU of named processes since the meter was made."""

    def __init__(self, pids):
        self._pids = pids
        self._began = {name: cpu_seconds(pid) for name, pid in pids.items()}

    def used(self):
        return {name: cpu_seconds(pid) - self._began[name] for name, pid in self._pids.items()}
