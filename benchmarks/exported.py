"""An exported network on the whole test set, where this package is not installed.

The ONNX file in onnxruntime and the exported program in torch, in an interpreter that cannot import
the package, against the network in PyTorch: how many images get another top-1, and how many of
those are near-ties, whose two largest logits differ by less than 1e-4.

    python benchmarks/exported.py RUN_DIR --data-dir DIR
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import torch

import transformable as tas

ALONE = """
import sys
sys.modules["transformable"] = None
import numpy, onnxruntime, torch
images, folder = numpy.load(sys.argv[1] + "/images.npy", mmap_mode="r"), sys.argv[2]
program = torch.export.load(folder + "/model.pt2").module()
session = onnxruntime.InferenceSession(folder + "/model.onnx", providers=["CPUExecutionProvider"])
for name, run in (
    ("program", lambda x: program(torch.from_numpy(x)).detach().numpy()),
    ("onnx", lambda x: session.run(["logits"], {"images": x})[0]),
):
    parts = [run(numpy.array(images[i : i + 500])) for i in range(0, len(images), 500)]
    numpy.save(sys.argv[1] + f"/{name}.npy", numpy.concatenate(parts))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", help="a run of tas prune")
    parser.add_argument("--data-dir", required=True)
    args = parser.parse_args()
    config = tomllib.loads((Path(args.run) / "config.toml").read_text())
    test = tas.data.load(config["data"], args.data_dir).test
    network = tas.load(args.run)
    batches = [x for x, _ in test.ordered(500)]
    with torch.inference_mode():
        ours = torch.cat([network(x) for x in batches])
    with tempfile.TemporaryDirectory() as place:
        np.save(f"{place}/images.npy", torch.cat(batches).contiguous().numpy())
        export = str((Path(args.run) / "export").resolve())
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", ALONE, place, export], check=True, cwd=place
        )
        found = {n: torch.from_numpy(np.load(f"{place}/{n}.npy")) for n in ("program", "onnx")}
    margin = ours.topk(2).values
    near = margin[:, 0] - margin[:, 1] < 1e-4
    for name, theirs in found.items():
        other = theirs.argmax(1) != ours.argmax(1)
        row = {
            "file": name,
            "n": len(ours),
            "accuracy": float((theirs.argmax(1) == test.labels).float().mean()),
            "other_top1": int(other.sum()),
            "other_top1_but_near_ties": int((other & ~near).sum()),
            "largest_difference": float((theirs - ours).abs().max()),
        }
        print(json.dumps(row))


if __name__ == "__main__":
    main()
