"""`tas sweep --storage` on a PostgreSQL server: four workers, one of them killed.

Starts a server of its own in a temporary folder, from the binaries of the distribution, and four
`tas sweep` on one study. When each of them works on a trial, the first is killed. In the end every
trial must be done exactly once, and the three others must agree on the result.

apt-get install postgresql; pip install psycopg2-binary 'transformable[sweep]'
python benchmarks/sweep_postgresql.py [--seeds 4] [--out FOLDER]
"""

import argparse
import collections
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna

WORKERS = 4
LIMIT_SECONDS = 900.0
JOB = [
    "--model=resnet20",
    "--data=digits",
    "--methods=uniform,pfec",
    "--budgets=0.5",
    "--transfer=init",
    "--train.epochs=1",
    "--student.epochs=1",
    "--device=cpu",
    "--jobs=1",
    "--json",
]
RUNNING, COMPLETE = optuna.trial.TrialState.RUNNING, optuna.trial.TrialState.COMPLETE


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """A server in a folder, and the URL of its database."""
    binaries = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
    if binaries is None:
        raise SystemExit("there is no PostgreSQL in /usr/lib/postgresql")
    password, data = secrets.token_hex(16), folder / "data"
    (folder / "password").write_text(password)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # the server refuses to run as root
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if user:
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres")

    def run(program: str, *arguments: str) -> None:
        command = [*user, str(binaries / program), "-D", str(data), *arguments]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)

    run("initdb", "-U", "tas", "-A", "scram-sha-256", f"--pwfile={folder / 'password'}")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"
    run("pg_ctl", "-w", "-l", str(folder / "server.log"), "-o", options, "start")
    try:
        yield f"postgresql+psycopg2://tas:{password}@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-w", "-m", "immediate", "stop")


def start_worker(number: int, out: Path, arguments: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "transformable", "sweep", *arguments, f"--out={out / 'run'}"]
    with (out / f"worker{number}.log").open("w") as log:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)


def trials_of(url: str) -> list[optuna.trial.FrozenTrial]:
    """All trials in the study so far."""
    return optuna.load_study(study_name="sweep", storage=url).trials


def wait_until_all_work(url: str, out: Path, workers: list[subprocess.Popen[str]]) -> None:
    end, teacher = time.monotonic() + LIMIT_SECONDS, out / "run" / "teacher" / "result.json"
    # the study is made before the teacher, by the workers alone
    while not teacher.exists() or sum(t.state == RUNNING for t in trials_of(url)) < WORKERS:
        if time.monotonic() > end or any(worker.poll() is not None for worker in workers):
            raise SystemExit(f"the workers did not come to work on a trial each; see {out}")
        time.sleep(0.2)


def name(trial: optuna.trial.FrozenTrial) -> str:
    return "{method}-{budget}-seed{seed}".format(**trial.user_attrs)


def check(trials: list[optuna.trial.FrozenTrial], results: list[dict[str, Any]]) -> None:
    """Print what became of each trial, and stop if one is not done exactly once."""
    done = collections.Counter(name(trial) for trial in trials if trial.state == COMPLETE)
    wanted = {f"{r['method']}-{r['budget']}-seed{r['seed']}" for r in results[0]["rows"]}
    print("| trial | begun | done | seconds of the last |\n| --- | --- | --- | --- |")
    for each in sorted(wanted):
        own = [t for t in trials if name(t) == each and t.datetime_start is not None]
        took = own[-1].duration
        seconds = "–" if took is None else f"{took.total_seconds():.0f}"
        print(f"| {each} | {len(own)} | {done[each]} | {seconds} |")
    states = collections.Counter(trial.state.name for trial in trials)
    print(f"\nstates in the study: {dict(states)}")
    assert done == dict.fromkeys(wanted, 1), "not every trial is done exactly once"
    assert set(states) == {"COMPLETE", "FAIL"}, "something is left in the queue"
    assert states["FAIL"] == 1, "more than the trial of the killed worker was given out twice"
    rows = [[(r["state"], r["accuracy"], r["macs"]) for r in result["rows"]] for result in results]
    assert all(each == rows[0] for each in rows), "the workers do not agree"
    assert all(state == "done" for state, _, _ in rows[0])


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stop the server also then
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as place:
        out = args.out or Path(place) / "out"
        server = Path(place) / "server"
        out.mkdir(parents=True)
        server.mkdir()
        Path(place).chmod(0o755)
        with postgresql(server) as url:
            begin = time.monotonic()
            arguments = [*JOB, f"--seeds={args.seeds}", f"--storage={url}"]
            workers = [start_worker(number, out, arguments) for number in range(WORKERS)]
            try:
                wait_until_all_work(url, out, workers)
                workers[0].send_signal(signal.SIGKILL)
                killed = time.monotonic() - begin
                print(f"one of {WORKERS} workers killed after {killed:.0f} s", flush=True)
                answers = [worker.communicate(timeout=LIMIT_SECONDS)[0] for worker in workers]
            finally:
                for worker in workers:
                    worker.kill()
            codes = [worker.returncode for worker in workers]
            print(f"exit codes {codes} after {time.monotonic() - begin:.0f} s\n")
            assert codes == [-signal.SIGKILL, 0, 0, 0], "a worker that was not killed failed"
            check(trials_of(url), [json.loads(text) for text in answers[1:]])
    print("every trial is done exactly once")


if __name__ == "__main__":
    run()
