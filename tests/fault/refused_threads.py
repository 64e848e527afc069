#!/usr/bin/env python3
"""Refuses the K-th thread of a run, for every K, with a library between the program and the C library.

Each run succeeds, or ends with status 4 and one error with the thread's number. It never ends with a signal,
terminate, or "bug in hfshard". Nothing is partly published, and the same command finishes it. A run with all threads
requests each once.
"""

import os
import shutil
import subprocess
import sys

import harness
import testing  # (found by harness)

import hub  # (the same)

MODEL = "org/model"
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
static atomic_int asked;
int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*), void* argument) {
  static int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (!real) real = dlsym(RTLD_NEXT, "pthread_create");
  const int number = ++asked;
  const char* counts = getenv("SHIM_COUNTS");
  if (counts && truncate(counts, number)) abort();
  if (number == atoi(getenv("SHIM_REFUSES"))) return EAGAIN;
  return real(thread, how, run, argument);
}
"""


def build(fault):
    """Builds the library. Returns None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    with open(fault.path("shim.c"), "w", encoding="ascii") as file:
        file.write(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", fault.path("shim.so"), fault.path("shim.c"), "-ldl"], check=True)
    return fault.path("shim.so")


def run(fault, shim, command, refused):
    """Refuses the thread with this number. Returns how the command ends, and how many threads it requested."""
    counts = fault.path("counts")
    with open(counts, "wb"):
        pass
    environment = {**os.environ, "LD_PRELOAD": shim, "SHIM_REFUSES": str(refused), "SHIM_COUNTS": counts}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return done, os.path.getsize(counts)


def commands(fault, name):
    """Returns commands by name. Each but the first reads the reference."""
    out = fault.path("reference")
    return {"convert": fault.convert(name, "--jobs", "6"), "verify": fault.command("verify", out, "--jobs", "6", "-q"),
            "diff": fault.command("diff", out, fault.path("source"), "--jobs", "6", "-q"),
            "back": fault.command("convert", out, fault.path(name), "--to", "safetensors", "--jobs", "6", "-q"),
            "link": fault.command("link", fault.path("source"), fault.path(name), "--digests", "--jobs", "6", "-q"),
            "hub": fault.command("convert", MODEL, fault.path(name), "--jobs", "6", "-q")}


def main():
    with harness.Fault(__doc__.splitlines()[0]) as fault, hub.Hub() as server:
        server.add(MODEL, {"main": fault.path("source")})
        # Every command reads these.
        os.environ.update({"HF_ENDPOINT": server.endpoint, "HF_HOME": fault.path("hf_home"), "HF_HUB_DOWNLOAD_TIMEOUT": "60"})
        fault.reference()
        shim = build(fault)
        if shim is None:
            print("NOT DONE: no compiler")
            return 77
        for what in commands(fault, ""):
            done, most = run(fault, shim, commands(fault, what)[what], 0)
            fault.check(done)
            fault.expect(0 < most < 16, f"{what}: {most} threads for 6 jobs: some are asked for more than once")
            endings = []
            for refused in range(1, most + 1):
                name = f"{what}{refused}"
                command = commands(fault, name)[what]
                done, _ = run(fault, shim, command, refused)
                when = f"{what}, thread {refused} of {most} refused"
                fault.expect(done.returncode in (0, 4), f"{when}: status {done.returncode}\n{done.stderr}")
                endings.append(done.returncode)
                if done.returncode == 4:
                    fault.expect("the system refuses thread " in done.stderr, f"{when}: no number\n{done.stderr}")
                    fault.expect(not os.path.lexists(fault.path(name)), f"{when}: an output is there")
                    fault.check(subprocess.run(command, capture_output=True, text=True, check=False))
            print(f"{what}: {most} threads, {endings.count(0)} refusals did no harm, {endings.count(4)} ended with 4")
            fault.expect(4 in endings, f"{what}: no refusal made a difference")
        return 0


if __name__ == "__main__":
    sys.exit(main())
