"""`python -m tests.fuzz.coverage_guided --seconds 600`: conversations that the coverage of the broker leads (atheris).

The plain modules run, because atheris watches Python's own code. An input is a program of conversation.py; one that
breaks an invariant of harness.py is written to the folder, named with its cause, and ends the run with status 1. Put it
into found_inputs.py with a name when the cause is mended. Needs atheris from PyPI; the normal suite does not.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

os.environ["AMQP_BROKER_PLAIN"] = "1"

#: Random programs to begin with: short ones lead nowhere, and the fuzzer would begin with them.
_SEEDS = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=0, help="stop after so long (default: when stopped)")
    parser.add_argument("--corpus", type=Path, help="folder that keeps interesting inputs from run to run")
    parser.add_argument("--seed", type=int, default=0, help="of the random choices; 0 takes another each time")
    asked = parser.parse_args()
    try:
        import atheris
    except ImportError:
        print("fuzz: atheris is missing; install it into this environment: pip install atheris", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["amqp_broker", "queues", "exchanges", "storage"]):
        from tests.fuzz.conversation import conversation
        from tests.fuzz.found_inputs import FOUND
        from tests.fuzz.harness import attack, neighbour_answers

    import logging

    logging.getLogger("amqp_broker").addHandler(logging.NullHandler())
    logging.getLogger("amqp_broker").propagate = False
    corpus = asked.corpus or Path(tempfile.mkdtemp(prefix="amqp-broker-fuzz-"))
    corpus.mkdir(parents=True, exist_ok=True)
    for name, program in FOUND.items():
        corpus.joinpath(f"found-{name}").write_bytes(program)
    chance = random.Random(asked.seed)
    for number in range(_SEEDS):
        corpus.joinpath(f"seed-{number}").write_bytes(chance.randbytes(chance.randrange(20, 200)))
    neighbour_answers()

    def one_input(program: bytes) -> None:
        # The neighbour costs more than most attacks, and time is seldom what matters.
        attack(conversation(program), 3000 if len(program) % 4 == 0 else 0, has_neighbour=len(program) % 8 == 1)

    limits = ["-max_len=400", "-len_control=0", "-timeout=20", "-rss_limit_mb=2048"]
    flags = [sys.argv[0], f"-artifact_prefix={corpus}{os.sep}", *limits]
    if asked.seconds:
        flags.append(f"-max_total_time={asked.seconds}")
    if asked.seed:
        flags.append(f"-seed={asked.seed}")
    print(f"fuzz: inputs are kept in {corpus}")
    atheris.Setup([*flags, str(corpus)], one_input)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
