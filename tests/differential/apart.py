"""Functions in a process of their own, so that one that crashes, hangs or takes all memory ends nothing else."""

import multiprocessing
import os
import resource
from contextlib import suppress

FORK = multiprocessing.get_context('fork')
# What a process may take, in seconds and bytes.
PATIENCE, MEMORY = 60, 4 << 30


def apart(calls):
    """What each of some calls (by name: a function and its arguments) returns, without those that fail, also by crashing, or return None."""
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=send, args=(sender, calls))
    process.start()
    sender.close()
    answers = None
    with suppress(EOFError):
        answers = receiver.recv() if receiver.poll(PATIENCE) else None
    process.kill()
    process.join()
    if answers is None and len(calls) > 1:
        # A process takes longer to start than most calls, so each has its own only now.
        return dict(answer for name, call in calls.items() for answer in apart({name: call}).items())
    return answers or {}


def send(sender, calls):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # What libraries say of damaged files.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    answers = {}
    for name, (function, *arguments) in calls.items():
        try:
            answers[name] = function(*arguments)
        except MemoryError:
            # The calls before it may have taken the memory.
            return
        except Exception:
            pass
    sender.send({name: answer for name, answer in answers.items() if answer is not None})
