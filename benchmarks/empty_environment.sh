#!/usr/bin/env bash
# What a stranger gets: the wheel, installed without extras into an empty environment, prunes a network
# on the digits. Needs the network (or pip's cache) and some minutes.
#
#     benchmarks/empty_environment.sh [torch==2.13.0]      # further requirements of pip, if any
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

python3 -m venv "$place/env"
bin=$place/env/bin
"$bin/python" -m pip wheel --quiet --no-deps --wheel-dir "$place" "$root"
"$bin/python" -m pip install --quiet "$place"/transformable-*.whl "$@"
"$bin/python" -m pip list | tail -n +3 | wc -l | sed 's/$/ packages installed/'

mkdir "$place/work"
cd "$place/work"
env -u PYTHONPATH "$bin/tas" prune --out run
ls run/export
